"""redeliver(delay, limit): what the ring has no room for comes again, by way of a topic."""

from itertools import pairwise
from random import Random

from tests.topology.engine.policies.failing import feed
from tests.topology.engine.policies.redelivered import partition_of
from tests.topology.handled import order
from tests.topology.partition import INSPECTOR, Partition, shop
from topology import (
    Event,
    Topology,
    TopologyTestDriver,
    redeliver,
)
from topology.engine.redelivery.records import ATTEMPT, NOT_BEFORE


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
