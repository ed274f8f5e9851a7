"""Bounded: what the engine holds and does has limits; a stream in order costs a number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, body, deliveries, records
from tests.topology.partition import INSPECTOR, Partition, board, shop
from topology import Message, Record, Topology, skip, spill
from topology.sequencer.progress import Progress


def arrive(partition: Partition, *indices: int, at: int = 0, stream: str = "a") -> None:
    partition.now = at
    partition.feed(records(Arrival(stream, index, at) for index in indices))
    partition.advance(at)


@given(arrivals=deliveries(), size=st.sampled_from([1, 2, 16]))
def test_a_ring_holds_no_more_than_its_slots_and_the_rest_are_rows(
    arrivals: list[Arrival], size: int
) -> None:
    partition = Partition(shop(buffer=size))
    partition.feed(records(arrivals))

    for stream in "abc":
        progress = partition.view().state.progress(stream)
        waiting = partition.waiting(stream)
        if isinstance(progress, Progress):
            held = [event.sequence for event in progress.ring or ()]
            assert held == [n for n in waiting if n - progress.last <= size]
            assert progress.waiting == len(waiting)
        else:
            assert waiting == []


@pytest.mark.parametrize("size", [1, 2, 16])
@pytest.mark.parametrize("crash", [False, True])
def test_a_stream_that_is_in_order_again_is_an_int_and_one_row(size: int, crash: bool) -> None:
    partition = Partition(shop(buffer=size, handler=lambda event: None))
    arrive(partition, 5, 3, 4, 2, 1)
    if crash:
        partition.crash()
    arrive(partition, 0)

    assert partition.view().state.progress("a") == 6
    assert type(partition.view().state.progress("a")) is int
    assert not partition.view().state.waiting
    assert set(partition.durable()["board"]) == {b"c", b"pa"}
    assert partition.durable()["board"][b"pa"] == b"6"


def test_late_events_leave_nothing_behind_once_all_have_come() -> None:
    partition = Partition(shop(gap=skip(after=1)))
    arrive(partition, 3)
    arrive(partition, at=2000)
    arrive(partition, 0, 1, 2, at=2000)

    assert partition.view().state.counts.late == 3
    assert partition.view().state.progress("a") == 4
    assert type(partition.view().state.progress("a")) is int


def test_the_memory_of_what_was_skipped_is_limited() -> None:
    partition = Partition(shop(gap=skip(after=1)))
    for index in range(0, 400, 2):
        arrive(partition, index + 1, at=index * 2000)

    progress = partition.view().state.progress("a")
    assert isinstance(progress, Progress)
    assert 0 < len(progress.skipped) <= 32
    assert len(partition.durable()["board"][b"pa"]) < 1000


@pytest.mark.parametrize("drain", [1, 3, 7])
def test_one_event_that_fills_a_long_gap_releases_a_limited_number_at_a_time(drain: int) -> None:
    partition = Partition(shop(buffer=4), drain=drain)
    arrive(partition, *range(20, 0, -1))
    unit = partition.process(records([Arrival("a", 0, 0)]))
    seen = [len(unit.colocated["shop.board"])]
    partition.commit(unit)
    while partition.task.unfinished:
        unit = partition.process([])
        seen.append(len(unit.colocated["shop.board"]))
        partition.commit(unit)

    assert max(seen) <= drain + 1
    assert sum(seen) == 21
    assert partition.handled() == {"a": list(range(1, 22))}


def test_a_drain_reads_every_spilled_event_a_few_times_at_most() -> None:
    """A ring of 64 must not make it 64 times."""
    inspected = 0
    compiled = INSPECTOR.compile()

    def counting(message: Message) -> object:
        nonlocal inspected
        inspected += 1
        return compiled(message)

    topology = Topology("shop")
    orders = topology.source("orders", inspector=counting, keyed=True)  # type: ignore[arg-type]
    topology.view("board", of=orders, handler=board, buffer=64, full=spill())
    partition = Partition(topology)
    arrive(partition, *range(600, 0, -1))
    inspected = 0
    arrive(partition, 0)

    assert partition.view().state.progress("a") == 601
    assert inspected <= 4 * 600


def test_gaps_that_closed_leave_no_timers_behind() -> None:
    partition = Partition(shop(gap=skip(after=3600)))
    for index in range(0, 2000, 2):
        arrive(partition, index + 1, index, at=index)

    assert type(partition.view().state.progress("a")) is int
    assert len(partition.view().state.timers) <= 64


def test_a_flood_of_streams_is_not_all_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topology.engine.state.view_state.CACHED", 10)
    partition = Partition(shop())
    streams = [f"s{number}" for number in range(100)]
    for stream in streams:
        arrive(partition, 0, stream=stream)
    arrive(partition, 2, stream="s5")
    for stream in streams:
        arrive(partition, 1, stream=stream)

    assert all(len(sequences) >= 2 for sequences in partition.handled().values())
    assert partition.handled()["s5"] == [1, 2, 3]
    assert partition.view().state.counts.processed == 201


@pytest.mark.parametrize("size", [1, 2, 16])
def test_the_smallest_and_largest_sequences_are_ordinary(size: int) -> None:
    lowest, highest = -(2**63), 2**63 - 1
    partition = Partition(shop(start=lowest + 1, jump=2**64, gap=skip(after=1), buffer=size))
    for sequence in (lowest + 2, lowest + 1, highest):
        partition.feed([Record("orders", 0, 0, b"a", body("a", sequence))])
    partition.advance(1000)
    for sequence in (highest - 1, highest):
        partition.feed([Record("orders", 0, 0, b"a", body("a", sequence))])

    assert partition.handled() == {"a": [lowest + 1, lowest + 2, highest]}
    counts = partition.view().state.counts
    assert (counts.late, counts.duplicate, counts.accounted) == (1, 1, 5)
