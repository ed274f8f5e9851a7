"""Idempotency: an event that was processed, or whose slot is filled, is discarded, for ever."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, batches, body, cuts, deliveries, records
from tests.topology.partition import Partition, shop
from topology import Event, Record, Upsert, skip


def message(sequence: int, at: int = 0, stream: str = "a", **more: object) -> Record:
    return Record(
        "orders", 0, at, stream.encode(), body(stream, sequence, **more), timestamp=at * 1000
    )


@pytest.mark.parametrize("size", [1, 2, 16])
@given(arrivals=deliveries(), sizes=cuts())
def test_a_delivery_that_comes_again_as_a_whole_changes_nothing_but_the_counts(
    size: int, arrivals: list[Arrival], sizes: list[int]
) -> None:
    partition = Partition(shop(buffer=size))
    for batch in batches(records(arrivals), sizes):
        partition.feed(batch)
    outputs = {topic: list(outs) for topic, outs in partition.written.items()}
    rows, before = partition.durable()["board"], partition.view().state.counts.duplicate

    for batch in batches(records(arrivals), sizes):
        partition.feed(batch)

    assert partition.written == outputs
    after = partition.durable()["board"]
    assert {k: v for k, v in after.items() if k != b"c"} == {
        k: v for k, v in rows.items() if k != b"c"
    }
    assert partition.view().state.counts.duplicate - before == len(arrivals)


@given(copies=st.lists(st.integers(1, 6), max_size=40), size=st.sampled_from([1, 2, 16]))
def test_every_event_is_handled_at_most_once(copies: list[int], size: int) -> None:
    partition = Partition(shop(buffer=size))
    partition.feed([message(sequence) for sequence in copies])

    handled = partition.handled().get("a", [])
    assert len(handled) == len(set(handled))
    assert partition.view().state.counts.duplicate == len(copies) - len(set(copies))


def test_an_event_is_discarded_however_long_ago_it_was_processed() -> None:
    partition = Partition(shop())
    partition.feed([message(sequence) for sequence in range(1, 2001)])
    partition.crash()
    partition.feed([message(1), message(1000), message(2000)])

    assert partition.handled() == {"a": list(range(1, 2001))}
    assert partition.view().state.counts.duplicate == 3


@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize("crash", [False, True])
def test_the_same_sequence_with_another_body_is_a_reported_conflict(size: int, crash: bool) -> None:
    """Size 1 keeps the event as a row beyond the ring; size 16 keeps it in the ring."""
    partition = Partition(shop(buffer=size))
    partition.feed([message(3, total=5)])
    if crash:
        partition.crash()
    partition.feed([message(3, 1, total=5), message(3, 2, total=6)])

    counts = partition.view().state.counts
    assert (counts.duplicate, counts.conflicts, counts.waiting) == (2, 1, 1)
    (report,) = partition.reports
    for part in ("board", "stream a", "sequence 3", "orders/0 offset 2"):
        assert part in report


def test_the_first_of_two_conflicting_events_is_the_one_that_counts() -> None:
    def total(event: Event) -> Iterator[Upsert]:
        yield Upsert("totals", key={"id": event.stream}, values={"total": event.content["total"]})

    partition = Partition(shop(handler=total))
    partition.feed([message(2, total=20), message(2, total=99), message(1, total=10)])

    totals = [value["changes"][0]["values"]["total"] for value in partition.values("shop.board")]
    assert totals == [10, 20]


def test_an_event_that_was_skipped_is_late_once_and_then_a_duplicate() -> None:
    partition = Partition(shop(gap=skip(after=5)))
    partition.feed([message(sequence) for sequence in (1, 4, 5)])
    partition.advance(5000)
    assert partition.handled() == {"a": [1, 4, 5]}
    partition.feed([message(sequence) for sequence in (2, 2, 3, 3, 4)])

    counts = partition.view().state.counts
    assert (counts.late, counts.duplicate, counts.skipped) == (2, 3, 2)
    assert partition.handled() == {"a": [1, 4, 5]}
