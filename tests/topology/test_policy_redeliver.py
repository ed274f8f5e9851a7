"""redeliver(delay, limit): what the ring has no room for comes again, by way of a topic."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, cuts, deliveries, fed, records
from tests.topology.failing import feed
from tests.topology.handled import driver_of, order
from tests.topology.partition import INSPECTOR, Partition, board, shop
from topology import (
    DeclarationError,
    Event,
    Record,
    Topology,
    TopologyTestDriver,
    adaptive,
    redeliver,
    skip,
    wait,
)
from topology.policies import Gap
from topology.redelivery import ATTEMPT, NOT_BEFORE, not_before


def partition_of(**policies: Any) -> Partition:
    return Partition(shop(**{"buffer": 3, "full": redeliver(delay=1, limit=3), **policies}))


def test_an_event_beyond_the_ring_comes_again_after_the_delay() -> None:
    partition = partition_of()
    feed(partition, 2, 3, 4)
    assert partition.waiting("a") == [2, 3]
    counts = partition.view().counts
    assert (counts.waiting, counts.redelivering, counts.accounted) == (2, 1, 3)
    (record,) = partition.written["shop.board.redeliver"]
    headers = dict(record.headers)
    assert (record.key, headers[NOT_BEFORE], headers[ATTEMPT]) == (b"a", b"1000", b"1")

    feed(partition, 1)
    assert partition.handled() == {"a": [1, 2, 3]}
    partition.advance(999)
    assert partition.handled() == {"a": [1, 2, 3]}
    partition.advance(1000)
    assert partition.handled() == {"a": [1, 2, 3, 4]}
    counts = partition.view().counts
    assert (counts.received, counts.processed, counts.redelivering) == (4, 4, 0)


def test_nothing_of_it_is_held() -> None:
    partition = partition_of()
    feed(partition, 2, 3, *range(4, 100))
    assert partition.waiting("a") == [2, 3]
    assert len(partition.tables["board"].rows) == 4  # two events, the progress and the counts
    partition.advance(2000)
    assert partition.waiting("a") == [2, 3]


def test_an_event_that_never_fits_goes_to_the_dead_topic() -> None:
    partition = partition_of()
    feed(partition, 2, 9)
    partition.advance(2999)
    assert partition.view().counts.redelivering == 1
    partition.advance(3000)
    counts = partition.view().counts
    assert (counts.dead, counts.redelivering, counts.accounted) == (1, 0, 2)
    (dead,) = partition.written["shop.dead"]
    headers = dict(dead.headers)
    assert (dead.key, headers["view"], headers["sequence"]) == (b"a", b"board", b"9")
    assert headers["sequitur-origin"] == b"orders/0/1/0"
    assert b"no room" in headers["sequitur-reason"]
    assert any("shop.dead" in line for line in partition.reports)


def test_the_message_that_comes_again_is_the_one_that_came() -> None:
    seen: list[Event] = []
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR)
    topology.view("board", of=orders, handler=seen.append, buffer=1)
    driver = TopologyTestDriver(topology, now=5000)
    driver.pipe("orders", order(2))
    driver.pipe("orders", order(3), key="k", headers=[("trace", b"\xff")], timestamp=77)
    driver.pipe("orders", order(1))
    driver.advance(1)

    last = seen[-1]
    message = last.message
    assert (last.stream, last.sequence, last.kind, last.content) == ("a", 3, "Placed", order(3))
    assert (message.topic, message.partition, message.offset) == ("orders", 0, 1)
    assert (message.key, message.timestamp) == (b"k", 77)
    assert list(message.headers) == [("trace", b"\xff")]
    assert last.arrived == 6000


def test_a_duplicate_of_an_event_that_is_away_is_found_out_when_both_are_back() -> None:
    partition = partition_of()
    feed(partition, 4, 4, 2, 3, 1)
    partition.advance(1000)
    counts = partition.view().counts
    assert (counts.processed, counts.duplicate, counts.accounted) == (4, 1, 5)


def test_a_gap_in_front_of_it_is_not_given_up_while_it_is_away() -> None:
    """What comes again opens its gap anew: its first arrival would be long ago."""
    partition = partition_of(gap=skip(after=8), full=redeliver(delay=2, limit=20))
    feed(partition, 2, 3, 6, 5)
    partition.advance(7900)
    feed(partition, 1, 4)
    partition.advance(60_000)
    assert partition.handled() == {"a": [1, 2, 3, 4, 5, 6]}
    assert partition.view().counts.skipped == 0


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
    assert partition.view().counts.skipped == 0


@pytest.mark.parametrize("gap", [wait(), skip(after=4)])
def test_a_gap_longer_than_the_ring_shows_and_can_be_given_up(gap: Gap) -> None:
    partition = partition_of(gap=gap, full=redeliver(delay=1, limit=20))
    feed(partition, 1)
    feed(partition, 9, 10, 8)
    assert partition.waiting("a") == [8, 9]
    assert partition.view().counts.redelivering == 1
    partition.crash()
    partition.advance(9000)
    if gap == wait():
        assert partition.waiting("a") == [8, 9]
    else:
        assert partition.handled() == {"a": [1, 8, 9, 10]}
        assert partition.view().counts.skipped == 6
        assert partition.view().progress("a").waiting == 0  # type: ignore[union-attr]


def test_an_event_that_comes_again_too_late_is_late() -> None:
    partition = partition_of(gap=skip(after=4), full=redeliver(delay=1, limit=20))
    feed(partition, 2, 7)
    partition.view().positions.redelivered = 1  # it is slow to be read
    feed(partition, 9, stream="b")
    feed(partition, 3, 8)
    partition.advance(60_000)
    away = partition.written["shop.board.redeliver"][0]
    record = Record("shop.board.redeliver", 0, 0, away.key, away.value, away.headers, 0)
    back = partition.view().take_back([record], partition.now)
    unit, _ = partition.task.begin([], partition.now)
    partition.view().run([], unit, None, back)
    partition.commit(unit)
    counts = partition.view().counts
    assert counts.late == 1
    assert counts.accounted == counts.received == 5


def test_it_comes_again_over_a_restart_and_once() -> None:
    partition = partition_of()
    feed(partition, 3, 2, 4)
    partition.crash()
    feed(partition, 1)
    partition.advance(1000)
    partition.crash()
    partition.advance(5000)
    assert partition.handled() == {"a": [1, 2, 3, 4]}
    assert partition.view().counts.duplicate == 0


def test_records_come_again_in_their_order_and_no_sooner() -> None:
    partition = partition_of()
    feed(partition, 2, 5)
    partition.now = 400
    feed(partition, 6)
    times = [not_before(record) for record in partition.away(partition.view())]
    assert times == [1000, 1400]
    assert partition.due == 1000
    partition.advance(1399)
    assert partition.view().positions.redelivered == 1


def test_at_least_once_an_event_may_come_again_more_often_than_it_went() -> None:
    partition = partition_of()
    unit = partition.process(records([Arrival("a", 1, 0), Arrival("a", 3, 0)]))
    partition.commit(unit)
    (torn,) = unit.colocated["shop.board.redeliver"]
    partition.written["shop.board.redeliver"] *= 2
    assert torn
    feed(partition, 1, 3)
    partition.advance(1000)
    counts = partition.view().counts
    assert (counts.received, counts.processed, counts.duplicate, counts.redelivering) == (
        5,
        4,
        1,
        0,
    )


@given(arrivals=deliveries(), sizes=cuts(), buffer=st.sampled_from([1, 2, 5]))
def test_it_comes_to_what_spilling_comes_to(
    arrivals: list[Arrival], sizes: list[int], buffer: int
) -> None:
    spilled = Partition(shop(buffer=buffer)).live(fed(arrivals, sizes))
    full = redeliver(delay=1, limit=100)
    partition = Partition(shop(buffer=buffer, full=full)).live(fed(arrivals, sizes))
    partition.advance(60_000)

    assert partition.handled() == spilled.handled()
    counts, wanted = partition.view().counts, spilled.view().counts
    assert counts.accounted == counts.received == len(arrivals)
    assert counts.processed == wanted.processed
    assert counts.dead == 0
    for stream in "abc":
        assert partition.view().state(stream) == spilled.view().state(stream)
        waits = partition.waiting(stream)
        assert set(waits) <= set(spilled.waiting(stream))
        assert waits[:1] == spilled.waiting(stream)[:1]


@given(arrivals=deliveries(), sizes=cuts())
def test_with_gaps_given_up_each_event_ends_in_one_place(
    arrivals: list[Arrival], sizes: list[int]
) -> None:
    partition = Partition(shop(buffer=2, gap=skip(after=4), full=redeliver(1, 100)))
    partition.live(fed(arrivals, sizes)).advance(200_000)
    counts = partition.view().counts
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
        (skip(after=adaptive(at_most=900)), redeliver(delay=0.25), "make the limit 7200 or more"),
    ],
)
def test_a_delay_that_does_not_fit_the_gap_policy(gap: Gap, full: Any, remedy: str) -> None:
    with pytest.raises(DeclarationError, match=f"view 'board': redeliver.*{remedy}"):
        shop(gap=gap, full=full)


@pytest.mark.parametrize("gap", [wait(), skip(0.5), skip(30), skip(5000), skip(adaptive())])
def test_the_default_fits_any_gap_policy(gap: Gap) -> None:
    full = driver_of(board, gap=gap).topology.views["board"].full
    assert shop(gap=gap, full=full).views["board"].full == full


def test_the_default_is_a_second() -> None:
    for gap in (wait(), skip(30)):
        assert driver_of(board, gap=gap).topology.views["board"].full == redeliver(1, 600)


@pytest.mark.parametrize("delay", [0, -1, "1", None, True, 1e9, float("nan")])
def test_a_delay_that_is_none(delay: Any) -> None:
    with pytest.raises(DeclarationError, match="delay must be"):
        redeliver(delay=delay)


@pytest.mark.parametrize("limit", [0, -1, 1.5, "1", None, True])
def test_a_limit_that_is_none(limit: Any) -> None:
    with pytest.raises(DeclarationError, match="limit must be"):
        redeliver(limit=limit)
