"""Independence: no view and no stream holds back, or changes, another."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given

from tests.topology.deliveries import (
    Arrival,
    cuts,
    deliveries,
    fed,
    moments,
    records,
)
from tests.topology.partition import INSPECTOR, Partition, board, shop
from topology import Event, Topology, Upsert, skip


def three_views(*names: str) -> Topology:
    """Views that wait, that give gaps up, and that fail at every event."""
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, keyed=True)

    def failing(event: Event) -> None:
        raise RuntimeError(f"no {event.sequence}")

    declared: dict[str, dict[str, Any]] = {
        "patient": {"handler": board, "buffer": 2},
        "hasty": {"handler": board, "gap": skip(after=2), "buffer": 64},
        "failing": {"handler": failing, "buffer": 1},
    }
    for name in names or declared:
        topology.view(name, of=orders, **declared[name])
    return topology


@given(arrivals=deliveries(), sizes=cuts())
def test_a_view_among_others_ends_as_it_does_alone(
    arrivals: list[Arrival], sizes: list[int]
) -> None:
    together = Partition(three_views())
    alone = {name: Partition(three_views(name)) for name in ("patient", "hasty", "failing")}
    for partition in (together, *alone.values()):
        partition.live(fed(arrivals, sizes))

    for name, partition in alone.items():
        assert together.durable()[name] == partition.durable()[name]
        assert together.written[f"shop.{name}"] == partition.written[f"shop.{name}"]


@given(arrivals=deliveries(streams="abcd"), sizes=cuts())
def test_a_stream_among_others_ends_as_it_does_alone(
    arrivals: list[Arrival], sizes: list[int]
) -> None:
    topology = shop(gap=skip(after=3))
    together = Partition(topology).live(fed(arrivals, sizes))

    for stream in "abcd":
        alone = Partition(topology)
        for at, arriving in moments(arrivals):
            alone.live([(at, [records(each for each in arriving if each.stream == stream)])])
        assert together.handled().get(stream) == alone.handled().get(stream)
        assert together.view().state.stream_state(stream) == alone.view().state.stream_state(stream)


def test_a_stream_that_waits_for_ever_does_not_hold_others_back() -> None:
    partition = Partition(shop(buffer=1))
    stuck = [Arrival("stuck", index, 0) for index in range(1, 40)]
    flowing = [Arrival("flowing", index, 0) for index in range(40)]
    both = [arrival for pair in zip(stuck, flowing, strict=False) for arrival in pair]
    partition.feed(records(both))

    assert partition.handled() == {"flowing": list(range(1, 40))}


def test_streams_whose_ids_begin_alike_keep_their_waiting_events_apart() -> None:
    streams = ["a", "a\1", "a\1é", "a\1éééé", "a\1\1\1\1\1\1\1\1\1", "ab"]
    partition = Partition(shop(buffer=1, gap=skip(after=5)))
    for nth, stream in enumerate(streams):
        partition.feed(records([Arrival(stream, 10 + nth, 0)]))
    for crash in (False, True):
        if crash:
            partition.crash()
        assert [partition.waiting(stream) for stream in streams] == [[n] for n in range(11, 17)]
    partition.advance(5000)

    assert partition.handled() == {stream: [11 + nth] for nth, stream in enumerate(streams)}


def test_a_failing_event_holds_back_neither_its_stream_nor_the_other_views() -> None:
    def picky(event: Event) -> Iterator[Upsert]:
        if event.sequence == 2:
            raise ValueError("two")
        yield Upsert("picky", key={"id": event.stream}, values={"last": event.sequence})

    topology = shop(handler=picky)
    topology.view("other", of="orders", handler=board)
    partition = Partition(topology)
    partition.feed(records(Arrival("a", index, 0) for index in range(4)))

    assert partition.handled("board") == {"a": [1, 3, 4]}
    assert partition.handled("other") == {"a": [1, 2, 3, 4]}
