"""full=redeliver() beside the gap policies: what is away is not given up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, cuts, deliveries, fed
from tests.topology.engine.policies.failing import feed
from tests.topology.engine.policies.redelivered import partition_of
from tests.topology.handled import driver_of
from tests.topology.partition import Partition, board, shop
from topology import (
    DeclarationError,
    Record,
    adaptive,
    redeliver,
    skip,
    spill,
    wait,
)
from topology.declaration.policies import Gap


def test_a_gap_in_front_of_it_is_not_given_up_while_it_is_away() -> None:
    """What comes again opens its gap anew: its first arrival would be long ago."""
    partition = partition_of(gap=skip(after=8), full=redeliver(delay=2, limit=20))
    feed(partition, 2, 3, 6, 5)
    partition.advance(7900)
    feed(partition, 1, 4)
    partition.advance(60_000)
    assert partition.handled() == {"a": [1, 2, 3, 4, 5, 6]}
    assert partition.view().state.counts.skipped == 0


def test_a_gap_in_front_of_what_waited_long_is_not_given_up_while_its_event_is_away() -> None:
    """7 fits when 1 comes, and has waited for long; 4 to 6 are away, for a second at most."""
    partition = partition_of(gap=skip(after=4), full=redeliver(delay=1, limit=20))
    feed(partition, 7)
    feed(partition, 2, 3)
    partition.advance(500)
    feed(partition, 4, 5, 6)
    partition.advance(3900)
    feed(partition, 1)
    partition.advance(60_000)
    assert partition.handled() == {"a": [1, 2, 3, 4, 5, 6, 7]}
    assert partition.view().state.counts.skipped == 0


@pytest.mark.parametrize("gap", [wait(), skip(after=4)])
def test_a_gap_longer_than_the_ring_shows_and_can_be_given_up(gap: Gap) -> None:
    partition = partition_of(gap=gap, full=redeliver(delay=1, limit=20))
    feed(partition, 1)
    feed(partition, 9, 10, 8)
    assert partition.waiting("a") == [8, 9]
    assert partition.view().state.counts.redelivering == 1
    partition.crash()
    partition.advance(9000)
    if gap == wait():
        assert partition.waiting("a") == [8, 9]
    else:
        assert partition.handled() == {"a": [1, 8, 9, 10]}
        assert partition.view().state.counts.skipped == 6
        assert partition.view().state.progress("a").waiting == 0  # type: ignore[union-attr]


def test_an_event_that_comes_again_too_late_is_late() -> None:
    partition = partition_of(gap=skip(after=4), full=redeliver(delay=1, limit=20))
    feed(partition, 2, 7)
    partition.view().state.positions.redelivered = 1  # it is slow to be read
    feed(partition, 9, stream="b")
    feed(partition, 3, 8)
    partition.advance(60_000)
    away = partition.written["shop.board.redeliver"][0]
    record = Record("shop.board.redeliver", 0, 0, away.key, away.value, away.headers, 0)
    back = partition.view().take_redeliveries([record], partition.now)
    unit, _ = partition.task.begin([], partition.now)
    partition.view().run([], unit, None, back)
    partition.commit(unit)
    counts = partition.view().state.counts
    assert counts.late == 1
    assert counts.accounted == counts.received == 5


@given(arrivals=deliveries(), sizes=cuts(), buffer=st.sampled_from([1, 2, 5]))
def test_it_comes_to_what_spilling_comes_to(
    arrivals: list[Arrival], sizes: list[int], buffer: int
) -> None:
    spilled = Partition(shop(buffer=buffer)).live(fed(arrivals, sizes))
    full = redeliver(delay=1, limit=100)
    partition = Partition(shop(buffer=buffer, full=full)).live(fed(arrivals, sizes))
    partition.advance(60_000)

    assert partition.handled() == spilled.handled()
    counts, wanted = partition.view().state.counts, spilled.view().state.counts
    assert counts.accounted == counts.received == len(arrivals)
    assert counts.processed == wanted.processed
    assert counts.dead == 0
    for stream in "abc":
        mine, other = partition.view().state, spilled.view().state
        assert mine.stream_state(stream) == other.stream_state(stream)
        waits = partition.waiting(stream)
        assert set(waits) <= set(spilled.waiting(stream))
        assert waits[:1] == spilled.waiting(stream)[:1]


@given(arrivals=deliveries(), sizes=cuts())
def test_with_gaps_given_up_each_event_ends_in_one_place(
    arrivals: list[Arrival], sizes: list[int]
) -> None:
    partition = Partition(shop(buffer=2, gap=skip(after=4), full=redeliver(1, 100)))
    partition.live(fed(arrivals, sizes)).advance(200_000)
    counts = partition.view().state.counts
    assert counts.accounted == counts.received == len(arrivals)
    assert (counts.waiting, counts.redelivering, counts.dead) == (0, 0, 0)
    for sequences in partition.handled().values():
        assert sequences == sorted(set(sequences))


@pytest.mark.parametrize(
    ("gap", "full", "remedy"),
    [
        (skip(after=2), redeliver(delay=1), "make the delay 0.5 s or less"),
        (skip(after=adaptive(at_least=2)), redeliver(delay=1, limit=9000), "0.5 s or less"),
        (skip(after=30), redeliver(delay=1, limit=10), "make the limit 60 or more"),
        (skip(adaptive(at_most=900)), redeliver(0.25, 600), "make the limit 7200 or more"),
    ],
)
def test_a_delay_that_does_not_fit_the_gap_policy(gap: Gap, full: Any, remedy: str) -> None:
    with pytest.raises(DeclarationError, match=f"view 'board': redeliver.*{remedy}"):
        shop(gap=gap, full=full)


@pytest.mark.parametrize("gap", [wait(), skip(0.5), skip(30), skip(5000), skip(adaptive())])
def test_the_default_loses_nothing_with_any_gap_policy(gap: Gap) -> None:
    assert driver_of(board, gap=gap).topology.views["board"].full == spill()


@pytest.mark.long
def test_redelivery_has_no_end_unless_one_is_named() -> None:
    assert redeliver() == redeliver(1, None)
    partition = partition_of(full=redeliver())
    feed(partition, 2, 9)
    partition.advance(4 * 3_600_000)
    feed(partition, 1, *range(3, 9))
    partition.advance(8 * 3_600_000)
    assert partition.handled() == {"a": list(range(1, 10))}
    assert partition.view().state.counts.dead == 0


@pytest.mark.parametrize("delay", [0, -1, "1", None, True, 1e9, float("nan")])
def test_a_delay_that_is_none(delay: Any) -> None:
    with pytest.raises(DeclarationError, match="delay must be"):
        redeliver(delay=delay)


@pytest.mark.parametrize("limit", [0, -1, 1.5, "1", True])
def test_a_limit_that_is_none(limit: Any) -> None:
    with pytest.raises(DeclarationError, match="limit must be"):
        redeliver(limit=limit)
