"""wait() and skip(after): how long a gap holds its stream back."""

from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, cuts, deliveries, fed
from tests.topology.engine.policies.failing import feed
from tests.topology.partition import Partition, shop
from tests.topology.plain_model import models
from topology import late_topic, skip, wait


def test_wait_waits_however_long_it_takes() -> None:
    partition = Partition(shop(gap=wait()))
    feed(partition, 1, 3)
    partition.advance(10**12)
    assert partition.waiting("a") == [3]
    assert partition.due == float("inf")
    feed(partition, 2)
    assert partition.handled() == {"a": [1, 2, 3]}


def test_skip_gives_a_gap_up_when_its_time_has_come_and_counts_it() -> None:
    partition = Partition(shop(gap=skip(after=3)))
    feed(partition, 1, 4)
    partition.advance(2999)
    assert partition.handled() == {"a": [1]}
    partition.advance(3000)
    assert partition.handled() == {"a": [1, 4]}
    assert partition.view().state.counts.skipped == 2
    assert any("skipped 2 missing (2 to 3)" in line for line in partition.reports)


def test_what_comes_after_all_goes_to_the_late_topic_once() -> None:
    partition = Partition(shop(gap=skip(after=3), late=late_topic()))
    feed(partition, 1, 4)
    partition.advance(3000)
    feed(partition, 3, 3)
    (late,) = partition.written["shop.late"]
    assert (late.key, late.headers[-4:-2]) == (b"a", [("view", b"board"), ("sequence", b"3")])
    counts = partition.view().state.counts
    assert (counts.late, counts.duplicate, counts.processed) == (1, 1, 2)
    assert partition.handled() == {"a": [1, 4]}


@given(arrivals=deliveries(), sizes=cuts(), after=st.sampled_from([None, 1, 3, 8]))
def test_it_comes_to_what_the_model_says(
    arrivals: list[Arrival], sizes: list[int], after: int | None
) -> None:
    gap = wait() if after is None else skip(after)
    partition = Partition(shop(gap=gap)).live(fed(arrivals, sizes))
    wanted = models(arrivals, after=None if after is None else after * 1000)
    assert partition.handled() == {s: model.handled for s, model in wanted.items() if model.handled}
    counts = partition.view().state.counts
    assert counts.skipped == sum(model.skipped for model in wanted.values())
    assert counts.late == sum(model.late for model in wanted.values())
