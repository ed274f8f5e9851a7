"""Trails of a stage: in the unit or by a thread, seen by a function; what fails has its own."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

from topology import DeclarationError, Record, Topology
from topology.engine.commit_unit import CommitUnit
from topology.engine.route_task import TRAIL, RouteTask
from topology.faust.worker.routing import trail_log
from topology.faust.worker.routing.trail_log import TrailLog
from topology.routing import FunctionKeys, RoutedSource, Rule, RuleSet, Trace

BODIES = [b"a", b"nothing", b"bad", b"a"]
RECORDS = [Record("in", 0, offset, b"k", body) for offset, body in enumerate(BODIES)]


def rules(keys: Callable[[Any], dict[str, Any]]) -> RuleSet:
    return RuleSet(
        3,
        sources=[RoutedSource("in", ("r",), module="m")],
        rules=[Rule("r", key="to", outbound="o")],
        destinations={"out": None},
        outbound={"o": {"a": "out"}},
        modules={"m": FunctionKeys(keys)},
    )


def keys(message: Any) -> dict[str, Any]:
    if message.value == b"bad":
        raise ValueError("it is bad")
    return {"to": message.value.decode()}


def task(keys: Callable[[Any], dict[str, Any]] = keys, **options: Any) -> RouteTask:
    topology = Topology("t")
    route = topology.route(
        "r", rules=rules(keys), reload=lambda load, before: rules(keys), **options
    )
    return RouteTask(topology, route)


def trails(unit: CommitUnit) -> list[Any]:
    return [orjson.loads(out[1] or b"") for out in unit.colocated["t.r.trails"]]


def test_trails_are_off_until_they_are_asked_for_and_then_of_each_so_manieth_offset() -> None:
    of = task(trails="topic")
    assert not trails(of.process(RECORDS, 0))
    of.trace = Trace("fired")
    found = trails(of.process(RECORDS, 0))
    assert [each["outcome"] for each in found] == ["routed", "unrouted", "failed", "routed"]
    of.trace = Trace("all", every=3)
    found = trails(of.process(RECORDS, 0))
    assert [each["offset"] for each in found] == [0, 3]
    assert found[0]["trail"]["keys"] == {"to": "a"}


def test_a_traced_message_is_decided_once_and_its_trail_says_what_became_of_it() -> None:
    looked: list[int] = []

    def seen(message: Any) -> dict[str, Any]:
        looked.append(message.offset)
        return keys(message)

    of = task(seen, trails="topic")
    of.trace, of.refused = Trace("all"), {"in/0/3/0": "too large"}
    found = trails(of.process([RECORDS[0], RECORDS[1], RECORDS[3]], 0))
    assert looked[:2] == [0, 1]
    assert [each["outcome"] for each in found] == ["routed", "unrouted", "failed"]
    assert (found[2]["reason"], found[2]["destinations"]) == ("too large", [])


def test_a_function_changes_or_drops_a_trail_and_one_that_fails_writes_nothing_and_is_told() -> (
    None
):
    def seen(trail: dict[str, Any]) -> Mapping[str, Any] | None:
        if trail["outcome"] == "failed":
            raise RuntimeError
        return {"only": trail["offset"]} if trail["offset"] else None

    of = task(trails="topic", trail_function=seen)
    of.trace = Trace("all")
    unit = of.process(RECORDS, 0)
    assert trails(unit) == [{"only": 1}, {"only": 3}]
    assert unit.reports == ["1 trails are not written: RuntimeError"]
    assert len(unit.keyed["out"]) == 2


def test_what_fails_is_tried_as_often_as_said_and_goes_to_errors_with_its_trail() -> None:
    tries = []

    def flaky(message: Any) -> dict[str, Any]:
        tries.append(message.offset)
        if len(tries) < 3 or message.value == b"bad":
            raise ValueError("it is bad")
        return keys(message)

    of = task(flaky, attempts=3)
    unit = of.process(RECORDS, 0)
    assert tries[:3] == [0, 0, 0]
    assert len(unit.keyed["out"]) == 2
    (failed,) = unit.keyed["t.malformed"]
    headers = dict(failed[3])
    assert failed[1] == b"bad"
    assert b"in/0/2 failed: " in headers[TRAIL]
    assert b"it is bad" in headers["sequitur-reason"]
    assert (of.intake.read, of.intake.malformed, of.intake.unknown) == (4, 1, 1)


def test_the_log_never_holds_routing_up_and_says_how_many_trails_it_has_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trail_log, "MOST", 2)
    monkeypatch.setattr(trail_log, "TELL", 0.05)
    hang = [True]

    def slow(trail: dict[str, Any]) -> dict[str, Any]:
        while hang[0]:
            time.sleep(0.01)
        return trail

    of = task(trail_function=slow)
    log = TrailLog(of._route)
    monkeypatch.setattr(log._waiting, "maxsize", 2)
    of.trace, of.log_trail = Trace("fired"), log.add
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            unit = of.process(RECORDS, 0)
        assert len(unit.keyed["out"]) == 2
        assert log.dropped >= 17
        hang[0] = False
        end = time.monotonic() + 60
        while "trails are not written" not in caplog.text:
            assert time.monotonic() < end, caplog.text
            time.sleep(0.02)
    assert '"outcome":"routed"' in caplog.text


def test_what_waits_to_be_written_is_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail_log, "MOST_BYTES", 0)
    of = task(trail_function=lambda trail: time.sleep(5))
    log = TrailLog(of._route)
    of.trace, of.log_trail = Trace("fired"), log.add
    of.process(RECORDS, 0)
    of.process(RECORDS, 0)
    assert log.dropped > 0


@pytest.mark.parametrize("wrong", [{"trails": "disk"}, {"attempts": 0}, {"reload": 7}])
def test_options_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError):
        Topology("t").route("r", rules=rules(keys), **wrong)


def test_a_function_that_ends_its_process_elsewhere_costs_a_trail_here() -> None:
    def ending(trail: dict[str, Any]) -> dict[str, Any]:
        raise SystemExit(3)

    of = task(trails="topic", trail_function=ending)
    of.trace = Trace("all")
    unit = of.process(RECORDS, 0)
    assert unit.reports == ["4 trails are not written: SystemExit"]
    log = TrailLog(of._route)
    log._write(of.rules.route(RECORDS[0], "all"))
    assert log.dropped == 1
