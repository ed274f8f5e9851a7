"""`--contents`: what a handler says differs from what is recorded, and the difference is found."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from tests.topology.diagnostics.audit.runs import COMMANDED, ORDERLY, Step, busy, run, topologies
from tests.topology.diagnostics.audit.test_clean import said
from tests.topology.diagnostics.audit.test_starts import ARRIVALS, KINDS, Arrivals, ran
from tests.topology.partition import INSPECTOR
from topology import Emit, Event, Record, Topology, TopologyTestDriver, Upsert, skip
from topology.diagnostics.audit import AuditReport, Place
from topology.testing.driver.audit import audit_of, committed, contents_of


@given(topologies(rebuilds=True), st.one_of(ORDERLY, busy(), COMMANDED))
def test_what_handlers_said_in_any_run_they_say_again(
    topology: Topology, steps: list[Step]
) -> None:
    driver = run(topology, steps)
    driver.restart()
    assert said(driver.audit(contents=True)) == []


@settings(max_examples=some(25))
@pytest.mark.parametrize("kind", KINDS)
@given(arrivals=ARRIVALS)
def test_they_say_it_again_wherever_streams_begin(kind: str, arrivals: Arrivals) -> None:
    assert said(ran(kind, arrivals, telling).audit(contents=True)) == []


def telling(event: Event, state: dict[str, Any]) -> Any:
    """Says what it has seen so far, sends it on, and fails now and then."""
    state["seen"] = [*state.get("seen", ()), event.sequence]
    if event.content.get("fails"):
        raise ValueError("it is to fail")
    yield Upsert("rows", key={"id": event.stream}, values={"seen": state["seen"]})
    if event.sequence % 3 == 0:
        yield Emit(
            "alerts", key=event.stream, value={"seen": state["seen"]}, headers=(("n", b"1"),)
        )


async def awaited(event: Event, state: dict[str, Any]) -> Any:
    """The same for who has to be awaited."""
    for each in telling(event, state):
        yield each


class Planted:
    """A run of two streams, to spoil."""

    def __init__(self, handler: Any = telling) -> None:
        topology = Topology("shop")
        source = topology.source("orders", inspector=INSPECTOR)
        topology.view("board", of=source, handler=handler, gap=skip(after=2))
        self.driver = driver = TopologyTestDriver(topology)
        for n in (1, 3, 2, 4, 6, 5, 7, 9):
            for stream in "ab":
                body = {"stream": stream, "sequence": n, "kind": "A"}
                driver.pipe("orders", body | ({"fails": 1} if n == 4 else {}))
        driver.advance(5)
        driver.pipe("orders", {"stream": "a", "sequence": 8, "kind": "A"})
        self.kept = driver._storage
        self.done = committed(self.kept, driver._runner.tasks, driver._runner.rekeyed)
        self.outputs = self.kept.topics["shop.board"]
        self.alerts = self.kept.topics["alerts"]

    def report(self) -> AuditReport:
        return contents_of(audit_of(self.kept, self.done, {}), self.kept)

    def places(self) -> set[Place | None]:
        return {violation.place for violation in self.report().violations}

    def events(self) -> list[tuple[str | None, int | None]]:
        return [(each.stream, each.sequence) for each in self.report().violations]


def changed(record: Record, **more: Any) -> Record:
    body = orjson.loads(record.value or b"")
    body["changes"][0]["values"] |= more
    return replace(record, value=orjson.dumps(body))


@pytest.mark.parametrize("handler", [telling, awaited])
def test_nothing_is_found_where_nothing_was_planted(handler: Any) -> None:
    planted = Planted(handler)
    report = planted.report()
    assert said(report) == []
    assert "--contents" not in str(report).splitlines()[-1]
    assert planted.alerts


def test_a_changed_value_is_found() -> None:
    planted = Planted()
    for at, record in enumerate(planted.outputs):
        planted.outputs[at] = changed(record, seen=["x"])
        assert planted.driver.audit().sound
        assert planted.places() == {Place("shop.board", 0, at)}
        planted.outputs[at] = record


@pytest.mark.parametrize(
    ("said", "recorded", "number"),
    [(1, True, 1), (0, False, 1), (1, 1.0, 1), ({"x": 1, "y": 2}, {"y": 2, "x": 1}, 0)],
)
def test_values_are_compared_as_json_says_them(said: Any, recorded: Any, number: int) -> None:
    def saying(event: Event) -> Any:
        yield Upsert("rows", key={"id": event.stream}, values={"n": said})

    planted = Planted(saying)
    planted.outputs[3] = changed(planted.outputs[3], n=recorded)
    assert len(planted.report().violations) == number


def test_two_contents_that_changed_places_are_found() -> None:
    planted = Planted()
    one, other = [at for at, r in enumerate(planted.outputs) if r.key == b"a"][1:3]
    bodies = [orjson.loads(planted.outputs[at].value or b"") for at in (one, other)]
    for at, body, by in ((one, *bodies), (other, *reversed(bodies))):
        mixed = orjson.dumps(body | {"changes": by["changes"]})
        planted.outputs[at] = replace(planted.outputs[at], value=mixed)
    assert planted.driver.audit().sound
    assert planted.places() == {Place("shop.board", 0, one), Place("shop.board", 0, other)}


def test_a_dropped_record_is_found() -> None:
    planted = Planted()
    gone = orjson.loads(planted.outputs.pop(5).value or b"")
    assert (gone["stream"], gone["sequence"]) in planted.events()


def test_a_forged_record_is_found() -> None:
    # As many records as the view counted, in sequence, and each of an event that came.
    planted = Planted(silent_at_five)
    ours = [at for at, r in enumerate(planted.outputs) if r.key == b"a"]
    bodies = [orjson.loads(planted.outputs[at].value or b"") for at in ours]
    (at,) = [at for at, body in zip(ours, bodies, strict=True) if body["sequence"] == 6]
    body = orjson.loads(planted.outputs[at].value or b"")
    headers = (("view", b"board"), ("sequence", b"5"))
    forged = replace(
        planted.outputs[at], value=orjson.dumps(body | {"sequence": 5}), headers=headers
    )
    planted.outputs[at] = forged
    assert planted.driver.audit().sound
    assert sorted(planted.events()) == [("a", 5), ("a", 6)]
    assert Place("shop.board", 0, at) in planted.places()


def silent_at_five(event: Event, state: dict[str, Any]) -> Any:
    if event.sequence != 5:
        yield from telling(event, state)


def test_a_message_that_was_dropped_changed_or_forged_is_found() -> None:
    planted = Planted()
    first = planted.alerts.pop(0)
    (found,) = planted.report().violations
    assert (found.stream, found.sequence) == ("a", 3)
    assert "sends a message that is not there" in found.what
    planted.alerts.insert(0, replace(first, value=b"{}"))
    assert planted.places() == {None, Place("alerts", 0, 0)}
    planted.alerts[0] = first
    assert planted.report().sound
    planted.alerts.append(replace(first, offset=99, key=b"z"))
    (found,) = planted.report().violations
    assert found.place == Place("alerts", 0, 99)


def test_a_handler_that_fails_now_is_said_to() -> None:
    planted = Planted()
    view = planted.driver.topology.views["board"]

    def broken(event: Event, state: dict[str, Any]) -> Any:
        raise ValueError("boom\x1b")

    object.__setattr__(view, "handler", broken)
    found = planted.report().violations
    assert any("its handler fails now: ValueError: boom\\x1b" in each.what for each in found)


def test_of_a_stream_whose_beginning_is_gone_nothing_is_said() -> None:
    planted = Planted()
    topic = "shop.orders.by-stream"
    records = planted.kept.topics[topic]
    del records[:4]
    snapshot = audit_of(planted.kept, planted.done, {}, firsts={(topic, 0): records[0].offset})
    report = contents_of(snapshot, planted.kept)
    assert said(report) == []
    assert any("contents of 2 streams not compared" in each for each in report.remarks)
