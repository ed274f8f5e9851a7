"""A source's tasks: what is malformed or unknown, the arrival clock, the hop by stream."""

from typing import Any

import pytest

from stores.view_state.memory import MemoryTable
from tests.topology.deliveries import Arrival, body, records
from tests.topology.partition import INSPECTOR, Partition, Written, shop
from topology import Event, Record, Topology, contiguous
from topology.engine.commit_unit import CommitUnit
from topology.engine.intake import IntakeCounts
from topology.engine.stream_task import RekeyTask, StreamTask
from topology.model.origin_headers import original

NOW = 5000


def rekeyed(topology: Topology, *batch: Record) -> CommitUnit:
    (source,) = topology.sources.values()
    return RekeyTask(topology, source).process(batch, NOW)


def as_record(out: Written, offset: int = 0) -> Record:
    return Record("by-stream", 2, offset, out.key, out.value, out.headers, out.timestamp)


def written(unit: CommitUnit, topic: str) -> list[Written]:
    return [Written(*out) for out in unit.keyed.get(topic, ())]


def test_a_message_hops_to_its_stream_s_partition_and_remembers_where_it_came_from() -> None:
    topology = shop(keyed=False)
    message = Record("orders", 3, 77, b"k", body("a", 1), [("trace", b"1")], 1234)
    unit = rekeyed(topology, message)

    (out,) = written(unit, "shop.orders.by-stream")
    assert (out.key, out.value, out.timestamp) == (b"a", message.value, NOW)
    assert out.headers[0] == ("trace", b"1")
    assert (unit.topic, unit.partition, unit.next_offset) == ("orders", 3, 78)
    found = original(as_record(out))
    assert (found.topic, found.partition, found.offset) == ("orders", 3, 77)
    assert (found.key, found.value, found.timestamp) == (b"k", message.value, 1234)
    assert list(found.headers) == [("trace", b"1")]


@pytest.mark.parametrize("key", [None, b"", b"\xff"])
@pytest.mark.parametrize(
    "headers", [[], [("sequitur-key", b"x")], [("sequitur-origin", b"a/1/2")], [("a", b"/")]]
)
def test_whatever_key_and_headers_a_message_has_it_comes_back_as_it_was(
    key: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    message = Record("orders", 0, 5, key, body("a", 1), headers, 9)
    (out,) = written(rekeyed(shop(keyed=False), message), "shop.orders.by-stream")
    found = original(as_record(out))
    assert (found.topic, found.partition, found.offset, found.key) == ("orders", 0, 5, key)
    assert list(found.headers) == headers


def test_a_record_that_was_never_re_keyed_is_its_own_original() -> None:
    message = Record("orders", 0, 5, b"k", b"{}", [("a", b"1")], 9)
    assert original(message) == message


@pytest.mark.parametrize("keyed", [False, True])
def test_a_malformed_message_goes_aside_with_the_reason_and_its_origin(keyed: bool) -> None:
    topology = shop(keyed=keyed)
    message = Record("orders", 3, 77, b"k", b"\xff", [("trace", b"1")], 1234)
    if keyed:
        partition = Partition(topology)
        partition.now = NOW
        unit = partition.process([message])
        assert partition.view().state.counts.received == 0
    else:
        unit = rekeyed(topology, message)

    (out,) = written(unit, "shop.malformed")
    assert unit.malformed == 1
    assert (out.key, out.value, out.timestamp) == (b"k", b"\xff", NOW)
    headers = dict(out.headers)
    assert headers["trace"] == b"1"
    assert b"not JSON" in headers["sequitur-reason"]
    assert headers["sequitur-origin"] == b"orders/3/77/1234"
    assert unit.next_offset == 78


@pytest.mark.parametrize(
    ("start", "step", "sequence", "good"),
    [
        (1, 1, 0, False),
        (0, 1, 0, True),
        (0, 1, -1, False),
        (-5, 1, -5, True),
        (1, 10, 11, True),
        (1, 10, 10, False),
        (-7, 10, 3, True),
        (-7, 10, 0, False),
    ],
)
def test_a_sequence_that_the_source_cannot_have_is_malformed(
    start: int, step: int, sequence: int, good: bool
) -> None:
    partition = Partition(shop(start=start, step=step))
    partition.feed([Record("orders", 0, 0, b"a", body("a", sequence))])

    assert partition.malformed == (not good)
    assert partition.view().state.counts.received == good
    if not good:
        reason = dict(partition.written["shop.malformed"][0].headers)["sequitur-reason"]
        assert f"the sequence {sequence} is not one of {start}" in reason.decode()


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("policy", ["pass", "topic"])
def test_an_unknown_message_is_counted_and_passed_by_or_set_aside(keyed: bool, policy: Any) -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=lambda m: None, keyed=keyed, unknown=policy)
    message = Record("orders", 3, 77, b"k", b"?", [("trace", b"1")], 1234)
    task = StreamTask(topology, source, 0, {}) if keyed else RekeyTask(topology, source)
    unit = task.process([message], NOW)

    assert unit.unknown == 1
    aside = written(unit, "shop.unknown")
    assert len(aside) == (policy == "topic")
    for out in aside:
        assert (out.key, out.value) == (b"k", b"?")
        assert dict(out.headers)["sequitur-origin"] == b"orders/3/77/1234"


def test_an_inspector_that_finds_nothing_new_after_the_hop_sees_the_original() -> None:
    seen: list[tuple[str, int, bytes | None]] = []

    def inspect(message: Any) -> Any:
        seen.append((message.topic, message.offset, message.key))
        return "a", 1, None, None

    topology = Topology("shop")
    source = topology.source("orders", inspector=inspect)
    unit = rekeyed(topology, Record("orders", 0, 7, b"k", b""))
    (out,) = written(unit, source.by_stream)
    StreamTask(topology, source, 0, {}).process([as_record(out)], NOW)
    assert seen == [("orders", 7, b"k"), ("orders", 7, b"k")]


def test_an_event_arrives_when_it_is_taken_in_whatever_its_message_s_timestamp() -> None:
    events: list[Event] = []
    partition = Partition(shop(handler=events.append))
    partition.now = 5000
    partition.feed(records(Arrival("a", nth, at) for nth, at in enumerate((7, 10**18, -1))))

    assert [event.arrived for event in events] == [5000, 5000, 5000]
    assert [event.message.timestamp for event in events] == [7, 10**18, -1]


def test_a_unit_says_which_input_it_takes() -> None:
    partition = Partition(shop())
    unit = partition.process(records(Arrival("a", index, 0) for index in range(3)))
    assert (unit.topic, unit.partition, unit.next_offset) == ("orders", 0, 3)
    assert partition.process([]).next_offset is None


def test_several_topics_feed_one_stream() -> None:
    topology = Topology("shop")
    source = topology.source(
        ["web", "phone"], name="orders", inspector=INSPECTOR, sequence=contiguous()
    )
    events: list[Event] = []
    topology.view("board", of=source, handler=events.append)
    partition = Partition(topology)
    web = rekeyed(topology, Record("web", 0, 0, None, body("a", 2)))
    phone = rekeyed(topology, Record("phone", 0, 0, None, body("a", 1)))
    outs = written(web, source.by_stream) + written(phone, source.by_stream)
    partition.feed([as_record(out, offset) for offset, out in enumerate(outs)])

    assert [(event.sequence, event.message.topic) for event in events] == [(1, "phone"), (2, "web")]


def test_a_view_that_began_later_knows_how_many_events_it_missed() -> None:
    topology = shop()
    (source,) = topology.sources.values()
    table = MemoryTable()
    apart = StreamTask(topology, source, 0, {"board": table}, apart=True)
    view = apart.views["board"]
    view.state.positions.began = 7
    apart.process([Record("orders", 0, at, b"a", body("a", at)) for at in (7, 8, 9)], NOW)
    together = StreamTask(topology, source, 0, {}, position=10, intake=IntakeCounts(10, 1))
    together.admit("board", view)
    assert (view.state.positions.missed, view.state.positions.input) == (6, None)
    table.write(together.process([], NOW).rows["board"])
    again = StreamTask(topology, source, 0, {"board": table}, intake=IntakeCounts(50))
    again.admit("board", again.views["board"])
    assert again.views["board"].state.positions == view.state.positions
