"""Whatever is done to the records or the counts of a run is found, and its position is named."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.topology.diagnostics.audit.runs import Step, busy, run, topologies
from topology import Counts, Event, Record, Topology, Upsert, skip
from topology.diagnostics.audit import Place, Violation
from topology.engine.state.rows import COUNTS
from topology.model.counts import decode_counts, encode_counts
from topology.testing import TopologyTestDriver
from topology.testing.driver.audit import audit_of, committed
from topology.testing.driver.storage import DriverStorage

some = settings(
    max_examples=settings().max_examples // 2,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
"""Half as many, since there are many tests. Not every run has what is to be spoiled."""


class Spoiled:
    """A run whose records are spoiled after it, and then audited."""

    def __init__(self, driver: TopologyTestDriver) -> None:
        self.driver = driver
        self.kept: DriverStorage = driver._storage
        # What is spoiled is not what is committed.
        self.committed = committed(self.kept, driver._runner.tasks, driver._runner.rekeyed)

    def violations(self) -> list[Violation]:
        missed = self.driver._runner.missed
        return audit_of(self.kept, self.committed, missed).report().violations

    def places(self) -> list[Place | None]:
        return [violation.place for violation in self.violations()]

    def events(self) -> list[tuple[str | None, str | None, int | None]]:
        """(view, stream, sequence) of the violations."""
        return [(each.view, each.stream, each.sequence) for each in self.violations()]


def spoiled(topology: Topology, steps: list[Step]) -> Spoiled:
    return Spoiled(run(topology, steps))


def drawn(data: st.DataObject, found: Spoiled, *topics: str) -> tuple[list[Record], int]:
    """The records of one of these topics that has any, and which of them to spoil."""
    there = [topic for topic in topics if found.kept.topics.get(topic)]
    assume(there)
    records = found.kept.topics[data.draw(st.sampled_from(there))]
    return records, data.draw(st.integers(0, len(records) - 1))


OUTPUTS = ("shop.one", "shop.two")
APART = ("conflicts", "reopened", "dropped", "rebuilt")
"""Counts of what happened, to which no records belong."""


@some
@given(topologies(talkative=True), busy(), st.data())
def test_an_output_that_is_gone(topology: Topology, steps: list[Step], data: st.DataObject) -> None:
    found = spoiled(topology, steps)
    records, at = drawn(data, found, *OUTPUTS)
    gone = orjson.loads(records.pop(at).value or b"")
    assert (gone["view"], gone["stream"], gone["sequence"]) in found.events()


@some
@given(topologies(), busy(), st.data())
def test_an_output_that_is_gone_among_events_without_any(
    topology: Topology, steps: list[Step], data: st.DataObject
) -> None:
    found = spoiled(topology, steps)
    records, at = drawn(data, found, *OUTPUTS)
    gone = orjson.loads(records.pop(at).value or b"")
    assert gone["view"] in [view for view, _, _ in found.events()]


@some
@given(topologies(), busy(), st.data())
def test_an_output_that_is_there_twice(
    topology: Topology, steps: list[Step], data: st.DataObject
) -> None:
    found = spoiled(topology, steps)
    records, at = drawn(data, found, *OUTPUTS)
    again = replace(records[at], offset=len(records))
    records.append(again)
    assert Place(again.topic, 0, again.offset) in found.places()


@some
@given(topologies(), busy(), st.data())
def test_outputs_of_a_stream_that_changed_places(
    topology: Topology, steps: list[Step], data: st.DataObject
) -> None:
    found = spoiled(topology, steps)
    records, at = drawn(data, found, *OUTPUTS)
    later = [n for n in range(at + 1, len(records)) if records[n].key == records[at].key]
    assume(later)
    one, other = records[at], records[later[0]]
    records[at] = replace(other, offset=at)
    records[later[0]] = replace(one, offset=later[0])
    assert Place(one.topic, 0, later[0]) in found.places()


@some
@given(topologies(), busy(), st.data())
def test_an_output_of_an_event_that_never_came(
    topology: Topology, steps: list[Step], data: st.DataObject
) -> None:
    found = spoiled(topology, steps)
    records, at = drawn(data, found, *OUTPUTS)
    body = orjson.loads(records[at].value or b"")
    headers = (("view", body["view"].encode()), ("sequence", b"4000"))
    records.append(replace(records[at], offset=len(records), headers=headers))
    assert (body["view"], body["stream"], 4000) in found.events()


@some
@given(topologies(), busy(), st.data())
def test_a_message_that_is_not_aside_any_more(
    topology: Topology, steps: list[Step], data: st.DataObject
) -> None:
    found = spoiled(topology, steps)
    records, at = drawn(data, found, "shop.malformed", "shop.unknown")
    topic, partition, offset, _ = dict(records.pop(at).headers)["sequitur-origin"].split(b"/")
    assert Place(topic.decode(), int(partition), int(offset)) in found.places()


@some
@given(topologies(), busy(), st.data())
def test_a_message_that_was_not_rekeyed(
    topology: Topology, steps: list[Step], data: st.DataObject
) -> None:
    found = spoiled(topology, steps)
    records, at = drawn(data, found, "shop.orders.by-stream")
    gone = dict(records.pop(at).headers)["sequitur-origin"]
    if gone in [dict(r.headers)["sequitur-origin"] for r in found.kept.topics["shop.malformed"]]:
        assert found.violations()
        return
    topic, partition, offset, _ = gone.split(b"/")
    assert Place(topic.decode(), int(partition), int(offset)) in found.places()


@some
@given(topologies(), busy(), st.data())
def test_a_message_that_was_rekeyed_twice(
    topology: Topology, steps: list[Step], data: st.DataObject
) -> None:
    found = spoiled(topology, steps)
    records, at = drawn(data, found, "shop.orders.by-stream")
    records.append(replace(records[at], offset=len(records)))
    assert Place("shop.orders.by-stream", 0, len(records) - 1) in found.places()


@some
@given(topologies(talkative=True), busy(), st.data())
def test_an_event_that_is_not_late_or_failed_any_more(
    topology: Topology, steps: list[Step], data: st.DataObject
) -> None:
    found = spoiled(topology, steps)
    ended = [r for r in found.kept.topics["shop.errors"] if ended_there(r)]
    found.kept.topics["shop.errors"] = ended
    records, at = drawn(data, found, "shop.late", "shop.errors")
    gone = records.pop(at)
    event = orjson.loads(gone.value or b"")
    view = dict(gone.headers)["view"].decode()
    whose = [each for each in found.events() if each[0] == view]
    assert whose
    accepts = topology.views[view].accepts
    if accepts is None or event["kind"] in accepts:
        assert (view, event["stream"], event["sequence"]) in whose


def ended_there(record: Record) -> bool:
    return bool(orjson.loads(record.value or b"")["done"] == "advance")


@some
@given(topologies(crowded=True), busy(), st.data())
def test_an_event_that_is_not_dead_or_away_any_more(
    topology: Topology, steps: list[Step], data: st.DataObject
) -> None:
    found = spoiled(topology, steps)
    topics = [view.redeliver_topic for view in topology.views.values()]
    runner = found.driver._runner
    away = {
        topic: [r for r in runner.redeliveries(runner.view(name)) if isinstance(r, Record)]
        for name, topic in zip(topology.views, topics, strict=True)
    }
    for topic in topics:
        found.kept.topics[topic] = away[topic]
    assert not found.violations()
    records, at = drawn(data, found, "shop.dead", *topics)
    del records[at]
    assert found.violations()


@some
@given(topologies(), busy(), st.data())
def test_a_waiting_event_whose_row_is_gone(
    topology: Topology, steps: list[Step], data: st.DataObject
) -> None:
    found = spoiled(topology, steps)
    rows = {
        (name, key): store
        for name, store in found.kept.stores.items()
        for key in store.rows
        if key[:1] == b"b"
    }
    assume(rows)
    view, key = data.draw(st.sampled_from(sorted(rows)))
    rows[view, key].write([(key, None)])
    assert key[1:2].decode() in [stream for v, stream, _ in found.events() if v == view]


@some
@given(topologies(), busy(), st.data())
def test_a_count_that_changed(topology: Topology, steps: list[Step], data: st.DataObject) -> None:
    found = spoiled(topology, steps)
    stores = {n: s for n, s in found.kept.stores.items() if COUNTS in s.rows}
    assume(stores)
    view = data.draw(st.sampled_from(sorted(stores)))
    name = data.draw(st.sampled_from([f.name for f in fields(Counts) if f.name not in APART]))
    counts = decode_counts(stores[view].rows[COUNTS])
    setattr(counts, name, getattr(counts, name) + data.draw(st.sampled_from([-1, 1, 5])))
    stores[view].rows[COUNTS] = encode_counts(counts)
    assert (view, f"shop-{view}-changelog") in [
        (each.view, each.place and each.place.topic) for each in found.violations()
    ] or name in ("late", "failed", "dead", "written")
    assert view in [each.view for each in found.violations()]


@pytest.mark.parametrize("field", ["read", "malformed", "unknown"])
@some
@given(topologies(), busy(), st.data())
def test_a_count_that_changed_with_an_offset(
    field: str, topology: Topology, steps: list[Step], data: st.DataObject
) -> None:
    found = spoiled(topology, steps)
    place = data.draw(st.sampled_from(sorted(found.committed)))
    offset, taken = found.committed[place]
    assume(taken.read)
    more = {field: getattr(taken, field) + data.draw(st.sampled_from([-1, 1, 5]))}
    found.committed[place] = offset, replace(taken, **more)
    assert place in [
        (each.place.topic, each.place.partition) for each in found.violations() if each.place
    ]


def counting(event: Event) -> Any:
    yield Upsert("rows", key={"id": event.stream}, values={"n": event.sequence})


def test_a_skip_that_nobody_recorded() -> None:
    topology = Topology("shop")
    source = topology.source(
        "orders", inspector="tests.topology.diagnostics.audit.runs:inspect", keyed=True
    )
    topology.view("board", of=source, handler=counting, gap=skip(after=2))
    driver = TopologyTestDriver(topology)
    for number in (1, 2, 5):
        driver.pipe("orders", {"stream": "a", "sequence": number, "kind": "A"})
    driver.advance(3)
    assert driver.audit().sound
    driver._storage.stores["board"].rows[b"pa"] = b"5"
    (first, *_) = Spoiled(driver).violations()
    assert (first.stream, first.sequence) == ("a", 3)
    assert "no skip is recorded" in first.what


def dropped(*, dry_run: bool) -> Spoiled:
    """A stream of three events, and a command that drops it."""
    topology = Topology("shop")
    source = topology.source(
        "orders", inspector="tests.topology.diagnostics.audit.runs:inspect", keyed=True
    )
    topology.view("board", of=source, handler=counting)
    driver = TopologyTestDriver(topology)
    for number in (1, 2, 3):
        driver.pipe("orders", {"stream": "a", "sequence": number, "kind": "A"})
    assert driver.command("drop", "board", "a", dry_run=dry_run).done
    return Spoiled(driver)


def gone(records: list[Record]) -> None:
    del records[1]


def twice(records: list[Record]) -> None:
    records[1] = replace(records[0], offset=1)


def elsewhere(records: list[Record]) -> None:
    records[1], records[2] = replace(records[2], offset=1), replace(records[1], offset=2)


@pytest.mark.parametrize("spoil", [gone, twice, elsewhere])
def test_a_drop_that_was_only_tried_hides_nothing(spoil: Callable[[list[Record]], None]) -> None:
    found = dropped(dry_run=True)
    report = found.driver.audit()
    assert (report.clean, report.remarks) == (True, [])
    assert "?" not in str(report)
    spoil(found.kept.topics["shop.board"])
    assert found.violations()


def test_a_skip_that_was_only_tried_is_none() -> None:
    topology = Topology("shop")
    source = topology.source(
        "orders", inspector="tests.topology.diagnostics.audit.runs:inspect", keyed=True
    )
    topology.view("board", of=source, handler=counting)
    driver = TopologyTestDriver(topology)
    for number in (1, 3):
        driver.pipe("orders", {"stream": "a", "sequence": number, "kind": "A"})
    for dry_run in (True, False):
        assert driver.command("skip", "board", "a", 2, dry_run=dry_run).done
        made = Spoiled(driver)
        side_topics = audit_of(made.kept, made.committed, {})._side_topics["board"]
        assert side_topics.skipped == (set() if dry_run else {"a"})


def test_a_stream_that_was_dropped_is_noted() -> None:
    report = dropped(dry_run=False).driver.audit()
    assert report.sound
    assert report.remarks == [
        "view board: 1 stream was dropped by command: whether all that came is recorded cannot be "
        "said"
    ]
    assert "what the notes above say" in report.unproved
