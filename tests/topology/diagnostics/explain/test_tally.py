"""The sum of a view's places against what came in."""

from dataclasses import replace

import pytest

from tests.topology.diagnostics.explain.durable import send, task_of
from tests.topology.handled import driver_of
from topology import Event, TopologyTestDriver, park, redeliver, skip
from topology.diagnostics.explain import (
    PartitionTally,
    came_apart,
    came_since,
    of_counts,
    source_totals,
    tally,
    tally_text,
)
from topology.diagnostics.explain.bad_news import MALFORMED, STILL
from topology.diagnostics.explain.source_totals import SHARE
from topology.diagnostics.explain.work_tally import WorkTally
from topology.engine.intake import RECENT, IntakeCounts
from topology.engine.state.work_status import WorkStatus
from topology.model.counts import Counts


def board(event: Event) -> None:
    if event.kind == "Bad":
        raise ValueError("not yet")


def partition(driver: TopologyTestDriver, came: int, **other: object) -> PartitionTally:
    counts = task_of(driver, of_counts).state.counts
    made = PartitionTally(0, counts, came, 0, False, None, came, came, "worker-1")
    return replace(made, **other)  # type: ignore[arg-type]


def mixed() -> TopologyTestDriver:
    """Events in every place: 10 of them."""
    driver = driver_of(board, buffer=4, error=park(), gap=skip(after=8), full=redeliver(delay=1))
    send(driver, 1, 1, 3, stream="a")
    send(driver, 1, stream="b", kind="Bad")
    send(driver, 2, stream="b")
    driver.advance(8)
    send(driver, 2, 5, 30, stream="a")
    send(driver, 1, 2, stream="c")
    return driver


def test_every_event_is_in_one_place() -> None:
    found = tally("board", "orders", [partition(mixed(), 10)])
    assert found.adds_up
    assert found.counts.received == 10
    assert {"parked": 2, "late": 1, "duplicate": 1, "redelivering": 1, "waiting": 1}.items() <= {
        name: getattr(found.counts, name) for name in Counts.__dataclass_fields__
    }.items()
    assert found.verdict == (
        "view board adds up: 10 events came, 10 in its places; but 1 late, 2 parked, 1 skipped"
    )


@pytest.mark.parametrize("came", [9, 11])
def test_an_event_too_many_or_too_few_is_seen(came: int) -> None:
    found = tally("board", "orders", [partition(mixed(), 10), partition(mixed(), came)])
    assert not found.adds_up
    (wrong,) = found.wrong
    assert "10 were received" in wrong
    assert "does NOT add up" in found.verdict


def test_places_that_are_not_what_was_received_are_seen() -> None:
    counts = Counts(received=5, processed=3, waiting=1)
    (wrong,) = tally("board", "orders", [partition(mixed(), 5, counts=counts)]).wrong
    assert wrong == "partition 0: 5 events received, 4 in its places"


def test_while_it_changes_it_lies_in_between() -> None:
    assert tally("board", "orders", [partition(mixed(), 0, low=9, high=11)]).adds_up
    assert tally("board", "orders", [partition(mixed(), 0, low=9, high=None)]).adds_up
    assert not tally("board", "orders", [partition(mixed(), 0, low=11, high=None)]).adds_up


def test_a_view_apart_has_received_what_came_before_its_own_position() -> None:
    assert came_apart(40, committed=100, events=90, between=50) == (40, 40)
    assert came_apart(40, committed=100, events=90, between=None) == (30, 90)
    assert came_apart(120, committed=100, events=90, between=15) == (105, 105)
    assert came_apart(120, committed=100, events=90, between=None) == (90, 110)
    assert came_apart(100, committed=100, events=90, between=None) == (90, 90)


def test_a_view_that_began_later_has_received_what_came_since() -> None:
    assert came_since(40, 100, low=90, high=90, seen=55) == (55, 55)
    assert came_since(40, 100, low=90, high=90, seen=None) == (50, 60)
    assert came_since(40, 45, low=4, high=4, seen=None) == (0, 4)


def test_what_was_re_keyed_is_read_or_unread() -> None:
    taken, read = IntakeCounts(100, 3, 2), IntakeCounts(90)
    assert source_totals("orders", taken, read, 0, 5).wrong is None
    assert source_totals("orders", taken, read, 0, 4).wrong is not None
    assert source_totals("orders", taken, IntakeCounts(96), 0, 9).wrong is not None
    assert source_totals("orders", taken, IntakeCounts(96), 0, 9, exactly_once=False).wrong is None
    assert source_totals("orders", None, read, 0, 0).wrong is None


def test_the_text_says_how_often_partitions_waited_for_each_other() -> None:
    taken = IntakeCounts(13, held=3, passed=1)
    lines = tally_text([source_totals("orders", taken, IntakeCounts(13), 0, 0)], []).splitlines()
    assert lines[0].endswith(
        "; its partitions waited 3 times for slower ones, and 1 time no longer for one"
    )


def test_the_text_has_a_table_and_a_verdict_per_view() -> None:
    there = partition(mixed(), 10)
    views = [
        tally("board", "orders", [there]),
        tally(
            "other",
            "orders",
            [replace(there, number=1, apart=True, halted="by test", owner=None, low=11, lag=7)],
        ),
    ]
    text = tally_text(
        [source_totals("orders", IntakeCounts(13, 2, 1), IntakeCounts(10), 4, 0)], views
    )
    lines = text.splitlines()
    assert lines[0] == (
        "source orders: 13 messages, of them 2 malformed, 1 unknown, 10 events; 10 of them read; "
        "4 offsets to go"
    )
    assert lines[2].split()[:3] == ["view", "received", "processed"]
    assert "failed" not in lines[2]
    assert lines[4].split()[-1] == "7"
    assert "view other: halted in partition 1: by test" in lines
    assert "view other: 2 events parked" in lines
    assert any(line.startswith("source orders: 15.38% of the latest") for line in lines)
    assert not any("malformed" in line for line in tally_text([], views).splitlines())
    assert "view other: reads apart in partitions 1" in lines
    assert "view other: no worker has partitions 1" in lines
    assert lines[-2].startswith("view board adds up")
    assert lines[-1].startswith("view other does NOT add up")


def test_what_is_not_well_is_named_though_it_adds_up() -> None:
    counts = Counts(received=9, processed=4, dead=1, failed=2, late=1, parked=1)
    there = partition(mixed(), 9, counts=counts)
    found = tally("board", "orders", [there])
    assert found.adds_up
    assert [trouble.place for trouble in found.troubles] == ["dead", "failed", "late", "parked"]
    assert found.verdict.endswith("9 in its places; but 1 dead, 2 failed, 1 late, 1 parked")
    gone = tally("board", "orders", [replace(there, owner=None, halted="by \x1b[2J")])
    assert [trouble.place for trouble in gone.troubles][:2] == ["halted", "unassigned"]
    assert "\x1b" not in tally_text([], [gone])
    well = tally(
        "board",
        "orders",
        [partition(mixed(), 4, counts=Counts(received=4, processed=3, waiting=1))],
    )
    assert well.troubles == []
    assert well.verdict.endswith("4 in its places")


def test_what_the_workers_found_to_be_malformed_is_not_processed() -> None:
    there = partition(mixed(), 4, counts=Counts(received=4, processed=4))
    work = WorkTally(0, 0, True, 0, 0, 0, WorkStatus(malformed=1), "me", 0)
    found = tally("board", "orders", [there], work=(work,))
    assert found.adds_up
    assert found.counts.processed == 3
    assert [trouble.place for trouble in found.troubles] == [MALFORMED]
    assert found.verdict.endswith("4 events came, 4 in its places; but 1 malformed")


def test_the_lag_has_what_is_not_re_keyed_yet() -> None:
    there = partition(mixed(), 10)
    assert tally("board", "orders", [there, there], unkeyed=7).lag == 2 * there.lag + 7


def test_a_share_of_malformed_messages_is_loud_beyond_a_threshold() -> None:
    few = source_totals("orders", IntakeCounts(1000, 9, 0), IntakeCounts(991), 0, 0)
    assert few.share == 0.009
    assert few.troubles() == []
    assert few.troubles(0.005)
    every = replace(
        source_totals("orders", IntakeCounts(100, 100, 0), IntakeCounts(), 0, 0),
        sample="orders/0 offset 9: no 'n'",
    )
    (trouble,) = every.troubles()
    assert str(trouble) == (
        "source orders: 100.00% of the latest messages are malformed, 100 in all; lately: orders/0 "
        "offset 9: no 'n'"
    )
    assert str(trouble) in tally_text([every], [])
    # A sequence of which nothing can be made is found when the input is read.
    assert source_totals("orders", IntakeCounts(100), IntakeCounts(100, 40), 0, 0).share == 0.4
    assert source_totals("orders", None, IntakeCounts(), 0, 0).troubles() == []


def test_a_source_is_judged_by_its_latest_messages() -> None:
    long_ago = IntakeCounts()
    long_ago.take(1_000, 1_000, 0)
    for _ in range(5):
        long_ago.take(RECENT, 0, 0)
    assert long_ago.malformed_share > SHARE
    assert source_totals("orders", None, long_ago, 0, 0).troubles() == []
    now = IntakeCounts()
    now.take(100 * RECENT, 0, 0)
    now.take(RECENT // 10, RECENT // 10, 0)
    assert now.malformed_share < SHARE
    assert source_totals("orders", None, now, 0, 0).troubles()


def test_what_was_put_back_came_once() -> None:
    driver = driver_of(board, buffer=2, full=redeliver(delay=1, limit=1))
    send(driver, 2, 3, 4, 5, stream="a")
    driver.advance(60)
    send(driver, 1, stream="a")
    driver.redrive_dead("board")
    found = tally("board", "orders", [partition(driver, 5)])
    assert found.counts.redriven > 0
    assert found.adds_up, found.wrong
    assert found.verdict == "view board adds up: 5 events came, 5 in its places"


def test_a_partition_that_stands_still_is_bad_news() -> None:
    parts = [partition(mixed(), 10, number=number, still=number == 1) for number in range(3)]
    found = tally("board", "orders", parts)
    (trouble,) = [each for each in found.troubles if each.place == STILL]
    assert "stands still in partitions 1, with messages to read" in str(trouble)
    assert str(trouble) in tally_text([], [found])


def test_re_keying_that_stands_still_is_bad_news() -> None:
    found = replace(
        source_totals("orders", IntakeCounts(9), IntakeCounts(9), 4, 0), still=("orders/1",)
    )
    (trouble,) = found.troubles()
    assert trouble.place == STILL
    assert str(trouble).startswith("source orders: stands still in orders/1, with messages to read")
    assert str(trouble) in tally_text([found], [])


def test_an_open_transaction_that_hides_messages_is_bad_news() -> None:
    told = "orders/0 is held by an open transaction at offset 17"
    found = replace(source_totals("orders", IntakeCounts(9), IntakeCounts(9), 4, 0), held=(told,))
    (trouble,) = found.troubles()
    assert trouble.place == STILL
    assert str(trouble) == f"source orders: {told}: nothing behind that is read until it ends"
