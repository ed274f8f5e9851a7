"""What a control topic says of its processes."""

import pytest

from sequitur.cli.main import main
from sequitur.route.control import BEATS, LOG, Control, ControlLog
from sequitur.route.control_commands import _told
from topology import Record
from topology.routing import Endpoint, Joined, Left, encode_control
from topology.routing.agreement import ControlRecord, Failed, Loaded, Propose, Register


def test_who_is_silent_is_said_by_offsets_whatever_clocks_say() -> None:
    log = ControlLog()
    for offset, name in enumerate(("a", "b", "c")):
        log.take(Record("t", LOG, offset, None, encode_control(Joined(name))))
        log.take(Record("t", BEATS, offset, name.encode(), b'{"period": 3}', (), 2**42))
    assert log.silent() == ["a", "b", "c"]
    assert log.patience() == 15
    log.take(Record("t", BEATS, 3, b"a", b'{"period": 3}', (), 0), live=True)
    log.take(Record("t", BEATS, 4, b"b", None, (), 0), live=True)  # it says that it ends
    log.take(Record("t", LOG, 3, None, encode_control(Left("c"))), live=True)
    assert log.silent() == ["b"]


def test_a_partition_counts_once_whoever_had_it_and_what_is_no_count_is_passed_over() -> None:
    log, said = ControlLog(), {}
    said["a"] = b'{"counts": {"in/0": [5, 1, 0], "in/1": [9, 0, 2]}}'
    said["b"] = b'{"counts": {"in/0": [7, 2, 0], "in/2": "many", "in/3": [1, true, 0]}}'
    said["c"] = b'{"counts": [1]}'
    for offset, name in enumerate(said):
        log.take(Record("t", BEATS, offset, name.encode(), said[name]))
    assert log.counted() == [(7, 2, 0), (9, 0, 2)]


def test_messages_that_failed_are_bad_news(capsys: pytest.CaptureFixture[str]) -> None:
    log = ControlLog()
    records: list[ControlRecord] = [Joined("a"), Propose(), Loaded("a", 1, "aa")]
    for offset, record in enumerate(records):
        log.take(Record("t", LOG, offset, None, encode_control(record)))
    for failed in (0, 2):
        beat = b'{"period": 3, "version": 1, "counts": {"in/0": [9, 0, %d]}}' % failed
        log.take(Record("t", BEATS, failed, b"a", beat), live=True)
        assert _told(log) == (1 if failed else 0), capsys.readouterr().out
    assert "WRONG: 2 messages failed" in capsys.readouterr().out


def test_rules_fire_in_all_processes_that_have_not_left() -> None:
    log, said = ControlLog(), {}
    said["a"] = b'{"rules": {"all": [5, 0.5], "<b>": [1, 0]}}'
    said["b"] = b'{"rules": {"all": [7, 1], "odd": "many", "other": [1], "none": [null, 2]}}'
    said["c"] = b'{"rules": {"all": [1000, 9]}}'
    for offset, name in enumerate(said):
        record = Left(name) if name == "c" else Joined(name)
        log.take(Record("t", LOG, offset, None, encode_control(record)))
        log.take(Record("t", BEATS, offset, name.encode(), said[name]))
    assert log.fired() == {"all": (12, 1.5), "<b>": (1, 0.0)}


def test_an_endpoint_that_is_not_registered_is_mistyped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log, ordered = ControlLog(), list[ControlRecord]()
    said: list[ControlRecord] = [
        *(Joined("p"), Propose(), Loaded("p", 1, "d")),
        Register(Endpoint("desk", "large")),
    ]
    for offset, record in enumerate(said):
        log.take(Record("t", LOG, offset, None, encode_control(record)))

    async def read(_: Control, listen: bool = False) -> ControlLog:
        return log

    async def order(_: Control, record: ControlRecord, seconds: float) -> tuple[ControlLog, int]:
        ordered.append(record)
        return log, 0

    monkeypatch.setattr(Control, "read", read)
    monkeypatch.setattr(Control, "order", order)
    assert main(["route", "unregister", "shop.router.control", "dsk"]) == 2
    assert "no endpoint 'dsk' (did you mean 'desk'?)" in caplog.text
    assert not ordered
    assert main(["route", "unregister", "shop.router.control", "desk"]) == 0, "it is proposed"
    assert len(ordered) == 1


def test_a_refused_version_is_not_decided_by_what_is_asked_for_after_it() -> None:
    log = ControlLog()
    said: list[ControlRecord] = [
        Joined("w"), Propose(), Loaded("w", 1, "aa"),
        Propose(frozenset({"makers"})), Failed("w", 2, "no database"),
        Propose(frozenset({"planes"})), Propose(frozenset({"makers"})), Loaded("w", 4, "bb"),
        Propose(),
    ]  # fmt: skip
    for offset, record in enumerate(said):
        log.take(Record("t", LOG, offset, None, encode_control(record)))
    assert log.proposed == {1: 1, 3: 2, 5: 3, 6: 4, 8: 5}
    decided = {v: at.version for v, at in log.outcome.items() if at.refused is None}
    assert decided == {1: 1, 3: 4, 4: 4}
    assert "no database" in (log.outcome[2].refused or "")
    assert 5 not in log.outcome
