"""park(): a failed event and the later ones of its stream are set aside in order, in one view."""

from collections import Counter
from dataclasses import replace

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, cuts, deliveries, fed, records
from tests.topology.engine.policies.failing import FOR_EVER, Faults, done, feed
from tests.topology.handled import driver_of, order
from tests.topology.partition import Partition, board, shop
from topology import Event, park, redeliver, skip
from topology.engine.state.rows import progress_key


def parked() -> Partition:
    """Stream a is parked at 2 of 1 to 3, and 4 comes after that."""
    partition = Faults({("a", 2): FOR_EVER}).partition(error=park())
    feed(partition, 1, 2, 3)
    feed(partition, 4)
    return partition


def test_the_stream_waits_behind_the_failed_event() -> None:
    partition = parked()
    assert partition.handled() == {"a": [1]}
    assert partition.waiting("a") == [2, 3, 4]
    assert done(partition) == [("a", 2, "park")]
    counts = partition.view().state.counts
    assert (counts.processed, counts.parked, counts.waiting, counts.failed) == (1, 3, 0, 0)
    assert counts.received == counts.accounted == 4
    assert partition.due == float("inf")


def test_every_parked_event_is_told_of_once() -> None:
    told = parked().values("shop.parked")
    assert [(each["view"], each["stream"], each["sequence"]) for each in told] == [
        ("board", "a", 2),
        ("board", "a", 3),
        ("board", "a", 4),
    ]
    assert "2 is not to be handled yet" in told[0]["reason"]
    assert [each["reason"] for each in told[1:]] == ["behind sequence 2"] * 2
    assert told[0]["position"] == {"topic": "orders", "partition": 0, "offset": 1}


def test_other_streams_and_other_views_go_on() -> None:
    topology = shop(handler=Faults({("a", 1): FOR_EVER}).handler, error=park())
    topology.view("other", of="orders", handler=board)
    partition = Partition(topology)
    partition.feed(records([Arrival(stream, nth, 0) for nth in range(3) for stream in "ab"]))
    assert partition.handled() == {"b": [1, 2, 3]}
    assert partition.handled("other") == {"a": [1, 2, 3], "b": [1, 2, 3]}


def test_a_duplicate_of_a_parked_event_is_discarded() -> None:
    partition = parked()
    feed(partition, 1, 2, 3, 4)
    assert partition.view().state.counts.duplicate == 4
    assert partition.view().state.counts.parked == 3


def test_it_stays_parked_over_a_restart() -> None:
    partition = parked()
    row = orjson.loads(partition.tables["board"].rows[progress_key("a")])
    assert (row["last"], row["held"]) == (1, True)
    partition.crash()
    feed(partition, 5)
    partition.advance(10**9)
    assert partition.waiting("a") == [2, 3, 4, 5]
    assert partition.view().state.counts.parked == 4
    assert partition.handled() == {"a": [1]}


def test_more_than_a_ring_waits_on_disk_whatever_the_full_policy() -> None:
    """Redelivery would give the events up after a while; a person may take longer."""
    faults = Faults({("a", 1): FOR_EVER})
    partition = faults.partition(error=park(), buffer=2, full=redeliver(delay=1, limit=2))
    feed(partition, 1)
    feed(partition, *range(2, 9))
    partition.advance(100_000)
    assert partition.waiting("a") == list(range(1, 9))
    assert partition.view().state.counts.parked == 8
    assert len(partition.values("shop.parked")) == 8


def test_events_that_waited_before_are_parked_with_the_one_that_failed() -> None:
    partition = Faults({("a", 2): FOR_EVER}).partition(error=park(), buffer=2)
    feed(partition, 3, 4, 5, 7, 9)
    assert partition.view().state.counts.waiting == 5
    feed(partition, 1, 2)
    counts = partition.view().state.counts
    assert (counts.parked, counts.waiting, counts.processed) == (6, 0, 1)
    assert [each["sequence"] for each in partition.values("shop.parked")] == [2, 3, 4, 5, 7, 9]


def test_how_many_more_waited_before_than_are_told_of_is_told() -> None:
    """Nothing said that there were more."""
    partition = Faults({("a", 2): FOR_EVER}).partition(error=park(), buffer=2)
    state = partition.view().state
    state.ordering = replace(state.ordering, drain=4)
    feed(partition, *range(20, 2, -1))
    feed(partition, 1, 2)
    feed(partition, 21)
    told = partition.values("shop.parked")
    assert [each["sequence"] for each in told] == [2, 3, 4, 5, 6, 7, 21]
    assert [each.get("more", 0) for each in told] == [0, 0, 0, 0, 0, 13, 0]
    assert len(told) + 13 == state.counts.parked


def test_what_came_too_early_and_was_handled_in_the_same_batch_is_not_parked() -> None:
    partition = Faults({("a", 3): FOR_EVER}).partition(error=park())
    feed(partition, 2, 4, 1, 3)
    assert partition.handled() == {"a": [1, 2]}
    assert [each["sequence"] for each in partition.values("shop.parked")] == [3, 4]
    assert partition.view().state.counts.parked == 2


def test_a_gap_behind_a_parked_event_is_not_given_up() -> None:
    partition = Faults({("a", 1): FOR_EVER}).partition(error=park(), gap=skip(after=1))
    feed(partition, 1, 3)
    partition.advance(10_000)
    assert partition.view().state.counts.skipped == 0
    assert partition.waiting("a") == [1, 3]


FAILS = st.sets(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=3)


@given(arrivals=deliveries(), sizes=cuts(), fails=FAILS, buffer=st.sampled_from([1, 3, 64]))
def test_what_was_handled_ends_before_the_failed_event_and_nothing_is_lost(
    arrivals: list[Arrival], sizes: list[int], fails: set[tuple[str, int]], buffer: int
) -> None:
    calm = Faults().partition(buffer=buffer).live(fed(arrivals, sizes))
    faults = Faults(dict.fromkeys(fails, FOR_EVER))
    partition = faults.partition(error=park(), buffer=buffer).live(fed(arrivals, sizes))

    sent = {(arrival.stream, arrival.nth + 1) for arrival in arrivals}
    count = 0
    for stream in "abc":
        wanted = calm.handled().get(stream, [])
        failed = [n for n in wanted if (stream, n) in fails]
        handled = [n for n in wanted if not failed or n < failed[0]]
        assert partition.handled().get(stream, []) == handled
        rest = sorted(n for s, n in sent if s == stream and n not in handled)
        assert partition.waiting(stream) == rest
        count += len(rest) if failed else 0
    counts = partition.view().state.counts
    assert counts.parked == count
    assert counts.accounted == counts.received == len(arrivals)
    told = Counter((each["stream"], each["sequence"]) for each in partition.values("shop.parked"))
    assert told.total() == counts.parked
    assert set(told.values()) <= {1}


def test_an_async_handler_parks_as_well() -> None:
    async def failing(event: Event) -> None:
        if event.sequence == 1:
            raise ValueError("no")

    driver = driver_of(failing, error=park())
    driver.pipe("orders", order(1))
    driver.pipe("orders", order(2))
    driver.pipe("orders", order(1, stream="b"))
    assert driver.counts("board").parked == 3
