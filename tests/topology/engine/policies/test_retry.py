"""retry(times, backoff): a failed event is handled again later; its stream waits, and no other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.view_state.memory import MemoryTable
from tests.topology.deliveries import Arrival, cuts, deliveries, fed, records
from tests.topology.engine.policies.failing import FOR_EVER, Faults, done, feed
from topology import Event, Inspector, Record, Topology, advance, monotonic, park, retry, skip
from topology.engine.stream_task import StreamTask


def test_an_event_that_fails_for_a_while_is_handled_in_its_place() -> None:
    partition = Faults({("a", 2): 3000}).partition(error=retry(times=5, backoff=1))
    feed(partition, 1, 2, 3)
    feed(partition, 4)
    assert partition.handled() == {"a": [1]}
    assert partition.waiting("a") == [2, 3, 4]
    assert partition.due == 1000

    partition.advance(999)
    assert partition.handled() == {"a": [1]}
    partition.advance(10_000)
    assert partition.handled() == {"a": [1, 2, 3, 4]}
    assert done(partition) == [("a", 2, "retry 1 of 5 in 1 s"), ("a", 2, "retry 2 of 5 in 2 s")]
    counts = partition.view().state.counts
    assert (counts.processed, counts.failed, counts.waiting, counts.parked) == (4, 0, 0, 0)
    assert partition.view().state.progress("a") == 4
    assert partition.due == float("inf")


def test_an_event_that_always_fails_is_passed_after_the_last_retry() -> None:
    partition = Faults({("a", 1): FOR_EVER}).partition(error=retry(times=2, backoff=1))
    feed(partition, 1, 2)
    partition.advance(60_000)

    assert [each[2] for each in done(partition)] == [
        "retry 1 of 2 in 1 s",
        "retry 2 of 2 in 2 s",
        "advance",
    ]
    assert partition.handled() == {"a": [2]}
    counts = partition.view().state.counts
    assert (counts.failed, counts.processed, counts.accounted) == (1, 1, 2)


def test_or_it_is_parked() -> None:
    partition = Faults({("a", 1): FOR_EVER}).partition(error=retry(1, 1, then=park()))
    feed(partition, 1, 2)
    partition.advance(60_000)
    assert [each[2] for each in done(partition)] == ["retry 1 of 1 in 1 s", "park"]
    assert partition.view().state.counts.parked == 2


def test_other_streams_and_the_rest_of_the_batch_go_on() -> None:
    partition = Faults({("a", 1): FOR_EVER}).partition(error=retry(times=3, backoff=10))
    partition.feed([*_batch("a", 1), *_batch("b", 1), *_batch("a", 2), *_batch("b", 2)])
    assert partition.handled() == {"b": [1, 2]}
    assert partition.view().state.counts.waiting == 2


def test_the_wait_doubles_up_to_the_limit() -> None:
    policy = retry(times=6, backoff=1, limit=5)
    assert [policy.delay(attempt) for attempt in range(1, 7)] == [1, 2, 4, 5, 5, 5]
    assert retry(1000, 1).delay(1000) == 60
    assert retry(1, 300).delay(1) == 300


def test_a_retry_is_due_over_a_restart_and_goes_on_counting() -> None:
    partition = Faults({("a", 1): FOR_EVER}).partition(error=retry(times=3, backoff=1))
    feed(partition, 1)
    partition.crash()
    assert partition.due == 1000
    partition.advance(1000)
    partition.crash()
    assert partition.due == 3000
    partition.advance(100_000)
    assert [each[2] for each in done(partition)][1:] == [
        "retry 2 of 3 in 2 s",
        "retry 3 of 3 in 4 s",
        "advance",
    ]


def test_each_event_has_retries_of_its_own() -> None:
    partition = Faults({("a", 1): 1000, ("a", 2): 2000}).partition(error=retry(1, 1))
    feed(partition, 1, 2)
    partition.advance(60_000)
    assert partition.handled() == {"a": [1, 2]}
    assert done(partition) == [("a", 1, "retry 1 of 1 in 1 s"), ("a", 2, "retry 1 of 1 in 1 s")]


def test_a_retry_needs_no_horizon() -> None:
    """Whether all that had arrived is read says nothing about a handler that failed."""
    partition = Faults({("a", 1): 500}).partition(error=retry(1, 1))
    feed(partition, 1)
    partition.now = 1000
    assert partition.view().retry_due == 1000
    partition.feed([], None)
    assert partition.handled() == {"a": [1]}


def test_a_gap_in_a_stream_that_is_retried_is_not_given_up_meanwhile() -> None:
    faults = Faults({("a", 1): 50_000})
    partition = faults.partition(error=retry(10, 20), gap=skip(after=5))
    feed(partition, 1, 3)
    partition.advance(19_000)
    feed(partition, 2)
    partition.advance(100_000)
    assert partition.handled() == {"a": [1, 2, 3]}
    assert partition.view().state.counts.skipped == 0


@pytest.mark.parametrize("drain", [1, 2, 10_000])
def test_a_retried_stream_that_drains_in_parts_keeps_its_count(drain: int) -> None:
    faults = Faults({(stream, 1): FOR_EVER for stream in "abc"})
    partition = faults.partition(error=retry(times=2, backoff=1))
    partition.drain = drain
    partition.crash()
    for stream in "abc":
        feed(partition, 1, 2, 3, stream=stream)
    partition.advance(60_000)
    for stream in "abc":
        assert [each[2] for each in done(partition) if each[0] == stream] == [
            "retry 1 of 2 in 1 s",
            "retry 2 of 2 in 2 s",
            "advance",
        ]
        assert partition.handled()[stream] == [2, 3]


def _batch(stream: str, sequence: int) -> list[Record]:
    return records([Arrival(stream, sequence - 1, 0)])


FAILS = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(1, 9)),
    st.sampled_from([1500, 4000, 9000, 40_000, FOR_EVER]),
    max_size=5,
)


@given(arrivals=deliveries(), sizes=cuts(), fails=FAILS)
def test_each_stream_is_in_order_whatever_fails(
    arrivals: list[Arrival], sizes: list[int], fails: dict[tuple[str, int], int]
) -> None:
    """In the end: all that has no gap in front, in sequence, without what failed to the last."""
    calm = Faults().partition(error=advance(), buffer=4)
    calm.live(fed(arrivals, sizes)).advance(1_000_000)
    partition = Faults(fails).partition(error=retry(times=3, backoff=1), buffer=4)
    partition.live(fed(arrivals, sizes)).advance(1_000_000)

    passed = {(s, n) for s, n, what in done(partition) if what == "advance"}
    assert passed <= fails.keys()
    for stream, wanted in calm.handled().items():
        handled = partition.handled().get(stream, [])
        assert handled == [n for n in wanted if (stream, n) not in passed]
    counts = partition.view().state.counts
    assert counts.failed == len(passed)
    assert counts.accounted == counts.received == len(arrivals)
    assert counts.parked == 0


def test_in_a_monotonic_view_retries_end_too() -> None:
    """Each retry was the first one: what is tried again had to be settled again meanwhile."""
    topology = Topology("shop")
    source = topology.source(
        "in", inspector=Inspector("id", "n"), keyed=True, sequence=monotonic(settle=1)
    )
    calls: list[int] = []

    def fails(event: Event) -> None:
        calls.append(event.sequence)
        raise ValueError("always")

    topology.view("v", of=source, handler=fails, error=retry(times=2, backoff=1, then=park()))
    task = StreamTask(topology, source, 0, {"v": MemoryTable()}, now=0)
    came = [Record("in", 0, 0, b"a", b'{"id": "a", "n": 7}')]
    for now in range(0, 20_000, 500):
        # The time by which all has arrived is known one step behind, as with a broker.
        task.process(came, now, None)
        task.process([], now, now)
        came = []
    counts = task.views["v"].state.counts
    assert (calls, counts.parked, counts.waiting) == ([7, 7, 7], 1, 0)
