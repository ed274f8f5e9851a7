"""redeliver(delay, limit): what the ring has no room for comes again, by way of a topic."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, cuts, deliveries, fed, records
from tests.topology.engine.policies.failing import feed
from tests.topology.handled import driver_of, order
from tests.topology.partition import INSPECTOR, Partition, Written, board, shop
from topology import (
    DeclarationError,
    Event,
    Record,
    Topology,
    TopologyTestDriver,
    adaptive,
    redeliver,
    skip,
    spill,
    wait,
)
from topology.declaration.policies import Gap
from topology.engine.redelivery import ATTEMPT, NOT_BEFORE, SEQUENCE, not_before
from topology.model.origin import ORIGIN


def partition_of(**policies: Any) -> Partition:
    return Partition(shop(**{"buffer": 3, "full": redeliver(delay=1, limit=3), **policies}))


def test_an_event_beyond_the_ring_comes_again_when_there_is_room() -> None:
    partition = partition_of()
    feed(partition, 2, 3, 4)
    assert partition.waiting("a") == [2, 3]
    counts = partition.view().state.counts
    assert (counts.waiting, counts.redelivering, counts.accounted) == (2, 1, 3)
    (record,) = partition.written["shop.board.redeliver"]
    headers = dict(record.headers)
    assert (record.key, headers[NOT_BEFORE], headers[ATTEMPT]) == (b"a", b"1000", b"1")
    assert partition.due == 1000

    feed(partition, 1)
    assert partition.handled() == {"a": [1, 2, 3]}
    assert partition.due == 0
    partition.advance(0)
    assert partition.handled() == {"a": [1, 2, 3, 4]}
    counts = partition.view().state.counts
    assert (counts.received, counts.processed, counts.redelivering) == (4, 4, 0)


def test_without_room_it_is_tried_after_the_delay_and_ever_more_seldom() -> None:
    partition = partition_of(full=redeliver(delay=1))
    feed(partition, 2, 9)
    partition.advance(10**6)
    times = [int(dict(r.headers)[NOT_BEFORE]) for r in partition.written["shop.board.redeliver"]]
    # Nine is two rings off.
    assert times[:7] == [2000, 4000, 8000, 16_000, 32_000, 64_000, 124_000]
    assert {after - at for at, after in pairwise(times[5:])} == {60_000}
    assert partition.view().state.counts.dead == 0


def test_what_fits_in_a_row_comes_again_in_one_step() -> None:
    partition = partition_of(buffer=4, full=redeliver(delay=1))
    feed(partition, *range(2, 400))
    feed(partition, 1)
    before = len(partition.written["shop.board.redeliver"])
    partition.feed([])
    assert partition.handled() == {"a": list(range(1, 400))}
    assert len(partition.written["shop.board.redeliver"]) == before


def test_nothing_of_it_is_held() -> None:
    partition = partition_of()
    feed(partition, 2, 3, *range(4, 100))
    assert partition.waiting("a") == [2, 3]
    assert len(partition.tables["board"].rows) == 4  # two events, the progress and the counts
    partition.advance(2000)
    assert partition.waiting("a") == [2, 3]


def test_an_event_that_never_fits_goes_to_the_dead_topic() -> None:
    partition = partition_of()
    feed(partition, 2, 4)
    partition.advance(6999)
    assert partition.view().state.counts.redelivering == 1
    partition.advance(7000)
    counts = partition.view().state.counts
    assert (counts.dead, counts.redelivering, counts.accounted) == (1, 0, 2)
    (dead,) = partition.written["shop.dead"]
    headers = dict(dead.headers)
    assert (dead.key, headers["view"], headers["sequence"]) == (b"a", b"board", b"4")
    assert headers["sequitur-origin"] == b"orders/0/1/0"
    assert b"no room" in headers["sequitur-reason"]
    assert any("shop.dead" in line for line in partition.reports)


def test_the_message_that_comes_again_is_the_one_that_came() -> None:
    seen: list[Event] = []
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR)
    topology.view("board", of=orders, handler=seen.append, buffer=1, full=redeliver())
    driver = TopologyTestDriver(topology, now=5000)
    driver.pipe("orders", order(2))
    driver.pipe("orders", order(3), key="k", headers=[("trace", b"\xff")], timestamp=77)
    driver.advance(0.001)
    driver.pipe("orders", order(1))
    driver.advance(0)

    last = seen[-1]
    message = last.message
    assert (last.stream, last.sequence, last.kind, last.content) == ("a", 3, "Placed", order(3))
    assert (message.topic, message.partition, message.offset) == ("orders", 0, 1)
    assert (message.key, message.timestamp) == (b"k", 77)
    assert list(message.headers) == [("trace", b"\xff")]
    assert last.arrived == 5001


def test_a_duplicate_of_an_event_that_is_away_is_found_out_when_both_are_back() -> None:
    partition = partition_of()
    feed(partition, 4, 4, 2, 3, 1)
    partition.advance(1000)
    counts = partition.view().state.counts
    assert (counts.processed, counts.duplicate, counts.accounted) == (4, 1, 5)


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


def test_it_comes_again_over_a_restart_and_once() -> None:
    partition = partition_of()
    feed(partition, 3, 2, 4)
    partition.crash()
    feed(partition, 1)
    partition.advance(1000)
    partition.crash()
    partition.advance(5000)
    assert partition.handled() == {"a": [1, 2, 3, 4]}
    assert partition.view().state.counts.duplicate == 0


def test_records_come_again_in_their_order_and_no_sooner() -> None:
    partition = partition_of()
    feed(partition, 2, 5)
    partition.now = 400
    feed(partition, 6)
    times = [not_before(record) for record in partition.away(partition.view())]
    assert times == [1000, 1400]
    assert partition.due == 1000
    partition.advance(1399)
    assert partition.view().state.positions.redelivered == 1


def test_a_record_that_is_not_due_holds_up_none_behind_it() -> None:
    """Nor is it lost, or taken twice, when the process dies in between."""
    partition = partition_of(full=redeliver(delay=1))
    feed(partition, 2, 200)  # far off: it stays away for a minute
    feed(partition, 2, 4, stream="b")
    partition.advance(3000)
    positions = partition.view().state.positions
    assert (positions.redelivered, positions.ahead) == (0, 0b110)
    partition.crash()
    feed(partition, 1, stream="b")
    feed(partition, 3, stream="b")
    partition.advance(30_000)
    assert partition.handled()["b"] == [1, 2, 3, 4]
    partition.advance(60_000)
    positions = partition.view().state.positions
    assert (positions.redelivered, positions.ahead) == (4, 0)
    counts = partition.view().state.counts
    assert (counts.redelivering, counts.duplicate, counts.accounted) == (1, 0, counts.received)


@pytest.mark.parametrize("crash", [False, True])
def test_a_clock_that_goes_back_does_not_hold_up_what_is_away(crash: bool) -> None:
    """A worker whose clock is an hour ahead may have sent it away."""
    partition = partition_of(full=redeliver(delay=1))
    hour = 3_600_000
    partition.now = hour
    feed(partition, 2, 9)
    partition.now = 0
    if crash:
        partition.crash()
    feed(partition, 2, 4, stream="b")
    partition.advance(0)
    times = [not_before(record) for record in partition.away(partition.view())]
    assert max(times) <= 4000
    feed(partition, 1, 3, stream="b")
    feed(partition, 1, *range(3, 9))
    partition.advance(0)
    assert partition.handled() == {"a": list(range(1, 10)), "b": [1, 2, 3, 4]}


def test_attempts_count_only_while_the_stream_stands_still() -> None:
    partition = partition_of(full=redeliver(delay=1, limit=3))
    feed(partition, 2, 59, 60)
    for sequence in range(1, 56):
        partition.advance(partition.now + 5000)
        if sequence != 2:
            feed(partition, sequence)
    assert partition.view().state.counts.dead == 0
    partition.advance(partition.now + 600_000)
    assert partition.view().state.counts.dead == 1


def test_a_hot_stream_out_of_order_neither_storms_nor_dies() -> None:
    """As 60,000 events did that were shuffled in blocks of 5,000."""
    partition = Partition(shop(handler=lambda event: None, buffer=8, full=redeliver(delay=1)))
    order, number = Random(7), 6000
    arrivals = []
    for first in range(1, number, 500):
        block = list(range(first, first + 500))
        order.shuffle(block)
        arrivals += block
    for at in range(0, number, 100):
        feed(partition, *arrivals[at : at + 100])
    partition.advance(3_600_000)
    counts = partition.view().state.counts
    assert (counts.processed, counts.dead) == (number, 0)
    assert len(partition.written["shop.board.redeliver"]) < 2 * number


def test_a_view_that_spills_now_takes_back_what_it_had_sent_away() -> None:
    before = partition_of(full=redeliver(delay=1))
    feed(before, 2, 3, 9, 8)
    assert before.view().state.counts.redelivering == 2
    partition = Partition(shop(buffer=3))
    partition.tables, partition.written = before.tables, before.written
    partition.crash()
    partition.advance(0)
    assert partition.waiting("a") == [2, 3, 8, 9]
    counts = partition.view().state.counts
    assert (counts.waiting, counts.redelivering, counts.accounted) == (4, 0, counts.received)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("x", b"y")],
        [(NOT_BEFORE, b"soon"), (ATTEMPT, b"1"), (SEQUENCE, b"9")],
        [(NOT_BEFORE, b"1"), (ATTEMPT, b"1"), (SEQUENCE, b"9" * 30)],
        [(NOT_BEFORE, b"9" * 30), (ATTEMPT, b""), (SEQUENCE, b"9")],
        [(NOT_BEFORE, b"1"), (ATTEMPT, b"1"), (SEQUENCE, b"-4")],
        [(NOT_BEFORE, None), (ATTEMPT, None), (SEQUENCE, None)],
        [(NOT_BEFORE, b"1"), (ATTEMPT, b"1"), (SEQUENCE, b"9"), (ORIGIN, b"a/b/c/d")],
        [(NOT_BEFORE, b"1"), (ATTEMPT, b"1"), (SEQUENCE, b"9"), (ORIGIN, b"a/0/0/" + b"9" * 30)],
    ],
)
@pytest.mark.parametrize("key", [b"a", None, b"\xff", b"a\0b"])
def test_what_is_no_event_is_set_aside_and_stops_nothing(headers: Any, key: bytes | None) -> None:
    partition = partition_of()
    feed(partition, 2, 4)
    rubbish = Written(key, b"{", 0, headers)
    partition.written["shop.board.redeliver"] += [rubbish]
    feed(partition, 1, 3)
    partition.advance(600_000)
    assert partition.handled()["a"][:4] == [1, 2, 3, 4]
    whole = headers[:1] == [(NOT_BEFORE, b"soon")] and key == b"a"
    assert len(partition.written["shop.malformed"]) == (not whole)
    counts = partition.view().state.counts
    assert counts.accounted == counts.received


def test_at_least_once_an_event_may_come_again_more_often_than_it_went() -> None:
    partition = partition_of()
    unit = partition.process(records([Arrival("a", 1, 0), Arrival("a", 3, 0)]))
    partition.commit(unit)
    (torn,) = unit.colocated["shop.board.redeliver"]
    partition.written["shop.board.redeliver"] *= 2
    assert torn
    feed(partition, 1, 3)
    partition.advance(1000)
    counts = partition.view().state.counts
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
    counts, wanted = partition.view().state.counts, spilled.view().state.counts
    assert counts.accounted == counts.received == len(arrivals)
    assert counts.processed == wanted.processed
    assert counts.dead == 0
    for stream in "abc":
        assert partition.view().state.stream_state(stream) == spilled.view().state.stream_state(
            stream
        )
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


def test_redelivery_has_no_end_unless_one_is_named() -> None:
    assert redeliver() == redeliver(1, None)
    partition = partition_of(full=redeliver())
    feed(partition, 2, 9)
    partition.advance(86_400_000)
    feed(partition, 1, *range(3, 9))
    partition.advance(2 * 86_400_000)
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
