"""The records of the redelivery topic: in their order, when they are due, each once."""

from typing import Any

import pytest

from tests.topology.deliveries import Arrival, records
from tests.topology.engine.policies.failing import feed
from tests.topology.engine.policies.redelivered import partition_of
from tests.topology.partition import Partition, Written, shop
from topology import (
    redeliver,
)
from topology.engine.redelivery.records import ATTEMPT, NOT_BEFORE, SEQUENCE, not_before
from topology.model.origin_headers import ORIGIN


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
