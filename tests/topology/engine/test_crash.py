"""Crashes at any point: what is rebuilt from the rows goes on as if nothing had happened."""

from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, cuts, deliveries, fed, records
from tests.topology.partition import FATES, Partition, board, shop
from topology import Event, Record, skip

POLICIES: list[dict[str, Any]] = [
    {"buffer": 1},
    {"buffer": 2},
    {"buffer": 16},
    {"buffer": 64, "gap": skip(after=3)},
    {"buffer": 2, "gap": skip(after=3)},
]


def sometimes(event: Event, state: dict[str, Any]) -> Any:
    state["calls"] = state.get("calls", 0) + 1
    if event.sequence % 5 == 0:
        raise ValueError("a multiple of five")
    return board(event, state)


def run(partition: Partition, arrivals: list[Arrival], sizes: list[int], fates: list[str]) -> None:
    """Feed batches; a unit that is lost is processed again, as its offset was not committed."""
    fate = cycle(fates)

    for at, together in fed(arrivals, sizes):
        partition.now = at
        for batch in together:
            partition.feed_fated(batch, None, fate)
        if partition.task.due <= at:
            partition.feed_fated([], at, fate)


@pytest.mark.parametrize("policies", POLICIES, ids=str)
@given(arrivals=deliveries(), sizes=cuts(), fates=FATES)
def test_crashes_change_neither_rows_nor_outputs(
    policies: dict[str, Any], arrivals: list[Arrival], sizes: list[int], fates: list[str]
) -> None:
    topology = shop(handler=sometimes, **policies)
    calm, crashing = Partition(topology), Partition(topology)
    run(calm, arrivals, sizes, ["goes well"])
    run(crashing, arrivals, sizes, fates)

    assert crashing.durable() == calm.durable()
    for topic in ("shop.board", "log", "shop.errors", "shop.late"):
        assert crashing.by_key(topic) == calm.by_key(topic)
    assert crashing.view().state.counts == calm.view().state.counts


@given(arrivals=deliveries(streams="ab"), sizes=cuts(), fates=FATES, drain=st.integers(1, 4))
def test_a_crash_in_the_middle_of_a_drain_does_not_stop_it(
    arrivals: list[Arrival], sizes: list[int], fates: list[str], drain: int
) -> None:
    topology = shop(buffer=3)
    calm, crashing = Partition(topology), Partition(topology, drain=drain)
    run(calm, arrivals, sizes, ["goes well"])
    run(crashing, arrivals, sizes, fates)

    assert crashing.view().state.counts == calm.view().state.counts
    for stream in "ab":
        assert crashing.handled().get(stream) == calm.handled().get(stream)
        assert crashing.waiting(stream) == calm.waiting(stream)
        assert crashing.view().state.stream_state(stream) == calm.view().state.stream_state(stream)


@pytest.mark.parametrize("size", [1, 2, 64])
def test_a_gap_keeps_its_deadline_over_a_restart(size: int) -> None:
    """Beyond a ring of 1 or 2 the event is a row; the clock has moved on since it arrived."""
    partition = Partition(shop(buffer=size, gap=skip(after=10)))
    partition.feed(records([Arrival("a", 4, 0)]))
    partition.now = 9000
    partition.feed(records([Arrival("b", 0, 9000)]))
    partition.crash()
    partition.advance(10_000)

    assert partition.handled()["a"] == [5]


@pytest.mark.parametrize("size", [2, 64])
def test_a_deadline_is_the_earliest_event_s_even_if_a_later_one_is_in_the_ring(size: int) -> None:
    partition = Partition(shop(buffer=size, gap=skip(after=10)))
    partition.feed(records([Arrival("a", 4, 0)]))
    partition.now = 6000
    partition.feed(records([Arrival("a", 1, 6000)]))
    partition.crash()
    partition.advance(10_000)

    assert partition.handled()["a"] == [2, 5]


def test_an_event_that_waited_over_a_restart_is_the_one_that_came() -> None:
    seen: list[Event] = []
    topology = shop(handler=seen.append, keyed=False)
    partition = Partition(topology)
    origin = (("sequitur-origin", b"orders/3/77/1111"), ("sequitur-key", b"k"))
    headers = (("trace", b"\xff\x00"), ("trace", b""), *origin)
    value = b'{"stream": "a",\n\n "sequence": 2, "kind": "Paid"}\n'
    partition.now = 1234
    partition.feed([Record(topology.sources["orders"].by_stream, 0, 5, b"a", value, headers, 9)])
    partition.crash()
    partition.now = 2000
    partition.feed(records([Arrival("a", 0, 2000)]))

    _, event = seen
    message = event.message
    assert (event.stream, event.sequence, event.kind, event.arrived) == ("a", 2, "Paid", 1234)
    assert event.content == {"stream": "a", "sequence": 2, "kind": "Paid"}
    assert (message.topic, message.partition, message.offset) == ("orders", 3, 77)
    assert (message.key, message.value, message.timestamp) == (b"k", value, 1111)
    assert list(message.headers) == [("trace", b"\xff\x00"), ("trace", b"")]


def test_a_header_without_a_value_waits_like_any_other() -> None:
    """Kafka allows null there, whatever the types say."""
    seen: list[Event] = []
    partition = Partition(shop(handler=seen.append))
    (early, first) = records([Arrival("a", 1, 0), Arrival("a", 0, 0)])
    early.headers = (("trace", None),)  # type: ignore[assignment]
    partition.feed([early])
    partition.crash()
    partition.feed([first])

    headers: list[Any] = [list(event.message.headers) for event in seen]
    assert headers == [[], [("trace", None)]]
