"""spill(): what the ring has no room for waits as rows on disk, for as long as it takes."""

from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, cuts, deliveries, fed
from tests.topology.engine.policies.failing import feed
from tests.topology.partition import Partition, shop
from topology import spill
from topology.sequencer.progress import Progress


def test_events_beyond_the_ring_wait_as_rows_and_not_in_memory() -> None:
    partition = Partition(shop(buffer=2, full=spill()))
    feed(partition, *range(2, 100))
    progress = partition.view().state.progress("a")
    assert isinstance(progress, Progress)
    assert (len(progress.ring or ()), progress.spilled) == (1, 97)
    assert partition.waiting("a") == list(range(2, 100))
    assert partition.view().halted is None
    assert not partition.written["shop.board.redeliver"]

    partition.advance(10**9)
    feed(partition, 1)
    assert partition.handled() == {"a": list(range(1, 100))}
    assert partition.view().state.counts.processed == 99


@given(arrivals=deliveries(), sizes=cuts(), buffer=st.sampled_from([1, 2, 5]))
def test_it_comes_to_what_a_large_ring_comes_to(
    arrivals: list[Arrival], sizes: list[int], buffer: int
) -> None:
    small = Partition(shop(buffer=buffer, full=spill())).live(fed(arrivals, sizes))
    large = Partition(shop(buffer=64, full=spill())).live(fed(arrivals, sizes))
    assert small.handled() == large.handled()
    assert small.view().state.counts == large.view().state.counts
    for stream in "abc":
        assert small.waiting(stream) == large.waiting(stream)
        assert small.view().state.stream_state(stream) == large.view().state.stream_state(stream)
