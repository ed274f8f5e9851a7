"""Commands as records: whatever bytes come, old ones, too old ones, and cancelled ones."""

import asyncio
from dataclasses import fields
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.handled import driver_of, order
from tests.topology.partition import board
from topology import Record, TopologyTestDriver, park
from topology.engine.commands.command import Command, decode_command, encode_command
from topology.engine.commands.execute import execute, obey
from topology.engine.commit_unit import CommitUnit

NOW = 1_700_000_000_000


def told(driver: TopologyTestDriver, *values: bytes | None) -> list[dict[str, Any]]:
    """What is audited of records of the commands topic that are read at once."""
    task = driver._runner.view("board")
    unit = CommitUnit("orders", 0, now=NOW)
    at = task.state.positions.commands
    records = [Record("shop.board.commands", 0, at + n, b"a", v) for n, v in enumerate(values)]
    asyncio.run(obey(task, records, unit))
    assert task.state.positions.commands == at + len(values)
    return [orjson.loads(value or b"") for _, value, _, _ in unit.keyed["shop.audit"]]


def outcomes(audited: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["name"], each["outcome"]) for each in audited]


@pytest.mark.parametrize(
    "value",
    [
        None, b"", b"\xff\xfe", b"null", b"[]", b'["name"]', b"17", b'"skip"', b"{}",
        b'{"name":"skip"}', b'{"name":1,"view":"board"}', b'{"name":"halt","view":null}',
        b'{"name":"skip","view":"board","stream":"a","sequence":1180591620717411303424}',
        b'{"name":"skip","view":"board","stream":"a","sequence":9223372036854775808}',
        b'{"name":"skip","view":"board","stream":"a","sequence":true}',
        b'{"name":"skip","view":"board","stream":"a","sequence":1.5}',
        b'{"name":"skip","view":"board","stream":["a"],"sequence":1}',
        b'{"name":"halt","view":"board","force":1}',
        b'{"name":"halt","view":"board","expires":"soon"}',
        b'{"name":"halt","view":"\\ud800"}',
        b"[" * 5000,
        b'{"name":"halt","view":"board","reason":"' + b"x" * (10 << 20) + b'"}',
    ],
    ids=range(22),
)  # fmt: skip
def test_a_record_that_is_no_command_is_refused_and_audited(value: bytes | None) -> None:
    with pytest.raises(ValueError, match="this is no command"):
        decode_command(value)
    driver = driver_of(board)
    (audited,) = told(driver, value)
    assert (audited["name"], audited["outcome"]) == ("unreadable", "refused")
    assert len(audited["message"]) < 1000


def test_a_command_of_another_version_is_understood() -> None:
    old = {"name": "skip", "view": "board", "stream": "a", "sequence": 4, "who": "ann"}
    assert decode_command(orjson.dumps(old)) == Command("skip", "board", "a", 4, "ann")
    newer = {**old, "with": "more"}
    assert decode_command(orjson.dumps(newer)) == Command("skip", "board", "a", 4, "ann")
    every = Command("skip", "board", "a", 4, "ann", True, True, "1", True, 5, 6, "7", "so", True)
    assert decode_command(encode_command(every)) == every
    assert len(fields(Command)) == 14


@given(
    name=st.sampled_from(["skip", "redrive", "unpark", "halt", "resume", "drop", "cancel", "x"]),
    stream=st.none() | st.text(max_size=20),
    sequence=st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    times=st.tuples(st.integers(-9, NOW * 2), st.integers(-9, NOW * 2)),
)
def test_no_command_stops_a_view(
    name: str, stream: str | None, sequence: int | None, flags: tuple[bool, bool, bool],
    times: tuple[int, int],
) -> None:  # fmt: skip
    driver = driver_of(board, error=park())
    driver.pipe("orders", order(1))
    driver.pipe("orders", order(3))
    force, dry_run, everywhere = flags
    command = Command(
        name, "board", stream or None, sequence, "ann", force, dry_run, "1", everywhere, *times
    )
    assert len(told(driver, encode_command(command))) == 1
    counts = driver._runner.view("board").state.counts
    assert counts.accounted == counts.received
    assert counts.skipped < 2**62


def test_a_slip_of_the_hand_does_not_give_up_a_billion_billions() -> None:
    driver = driver_of(board)
    driver.pipe("orders", order(1))
    result = driver.command("skip", "board", "a", 2**62, force=True)
    assert not result.done
    assert "4611686018427387903 sequences ahead" in result.message


def test_a_command_that_is_too_old_is_not_carried_out() -> None:
    driver = driver_of(board)
    old = Command("halt", "board", who="ann", id="1", given=NOW - 700_000, expires=NOW - 100_000)
    new = Command("halt", "board", who="ann", id="2", given=NOW - 700_000, expires=NOW)
    (audited,) = told(driver, encode_command(old))
    assert (audited["outcome"], audited["done"]) == ("expired", False)
    assert "700 s ago" in audited["message"]
    assert driver.halted("board") is None
    assert outcomes(told(driver, encode_command(new))) == [("halt", "carried out")]
    assert driver.halted("board")


def test_a_command_that_waits_is_cancelled_and_one_that_was_carried_out_is_not() -> None:
    driver = driver_of(board)
    halt = encode_command(Command("halt", "board", who="ann", id="1"))
    cancel = encode_command(Command("cancel", "board", who="bob", id="2", cancels="1"))
    audited = told(driver, halt, cancel)
    assert outcomes(audited) == [("halt", "cancelled"), ("cancel", "carried out")]
    assert "bob cancelled it" in audited[0]["message"]
    assert driver.halted("board") is None
    assert outcomes(told(driver, halt)) == [("halt", "carried out")]
    (late,) = told(driver, cancel)
    assert (late["outcome"], late["done"]) == ("refused", False)
    assert driver.halted("board")


def test_a_command_for_another_view_is_refused() -> None:
    driver = driver_of(board)
    task, unit = driver._runner.view("board"), CommitUnit("orders", 0, now=NOW)
    result = execute(task, Command("halt", "bored"), unit)
    assert not result.done
    assert "it is for view bored, not for board" in result.message


def test_what_a_command_says_of_a_stream_is_printable() -> None:
    driver = driver_of(board)
    result = driver.command("redrive", "board", "\x1b[31m" + "x" * 9000)
    assert "\x1b" not in result.message
    assert len(result.message) < 400


@pytest.mark.parametrize("name", ["skip", "redrive", "unpark", "drop"])
def test_a_dry_run_says_it_and_changes_nothing(name: str) -> None:
    def handler(event: Any) -> None:
        if event.sequence == 2:
            raise ValueError("bad")

    driver = driver_of(handler, error=park())
    for sequence in (1, 2, 3):
        driver.pipe("orders", order(sequence))
    driver.pipe("orders", order(2, "b"))
    task = driver._runner.view("board")
    before = dict(driver._storage.stores["board"].rows), task.state.counts.accounted
    stream = "b" if name == "skip" else "a"
    result = driver.command(name, "board", stream, 1, dry_run=True, force=name == "drop")
    assert result.done, result
    assert "would" in result.message
    rows = dict(driver._storage.stores["board"].rows)
    assert (rows, task.state.counts.accounted) == before
    assert driver.waiting("board", "a") == [2, 3]
    assert not driver.read("shop.dead")
