"""The gap ledger: every stream that misses something, the oldest first."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.topology.diagnostics.explain.durable import away, send, task_of, waiting_of
from tests.topology.handled import driver_of
from topology import Event, TopologyTestDriver, park, redeliver, skip, spill
from topology.diagnostics.explain import (
    Ledger,
    Missing,
    OpenGap,
    gaps_text,
    of_counts,
    of_waiting,
    open_gaps,
)
from topology.diagnostics.explain.bad_news import troubles
from topology.diagnostics.explain.gaps import NOBODY
from topology.faust.operation.bulk import up_to
from topology.model.counts import Counts

Gone = Mapping[str, Collection[int]]


def board(event: Event) -> None:
    if event.kind == "Bad":
        raise ValueError("not yet")


def gaps(driver: TopologyTestDriver) -> list[OpenGap]:
    gone = {stream: [a.sequence for a in away(driver, stream)] for stream in ("a", "b")}
    found = list(open_gaps(task_of(driver, of_waiting), 0, gone))
    assert sorted(kept_gaps(driver, gone), key=str) == sorted(found, key=str)
    return found


def kept_gaps(
    driver: TopologyTestDriver, gone: Gone = NOBODY, dead: Gone = NOBODY
) -> list[OpenGap]:
    """The same by what a console keeps."""
    view, state = driver.topology.views["board"], task_of(driver, of_counts).state
    return list(waiting_of(driver).gaps(view, 0, state.ordering, gone, dead))


def test_streams_in_order_are_not_in_it() -> None:
    driver = driver_of(board)
    send(driver, 1, 2)
    send(driver, 1, 3, stream="b")
    (gap,) = gaps(driver)
    assert (gap.stream, gap.last, gap.missing) == ("b", 1, (Missing(2, 2, 1),))
    assert (gap.count, gap.waiting, gap.since, gap.due) == (1, 1, driver.now, None)


def test_a_gap_that_closed_is_gone_from_it() -> None:
    driver = driver_of(board)
    send(driver, 2, 3)
    send(driver, 1)
    assert gaps(driver) == []


def test_a_parked_stream_is_in_it_only_if_something_is_missing() -> None:
    driver = driver_of(board, error=park(), gap=skip(after=30))
    send(driver, 1, kind="Bad")
    send(driver, 2)
    assert gaps(driver) == []
    send(driver, 4)
    (gap,) = gaps(driver)
    assert (gap.missing, gap.parked, gap.waiting, gap.due) == ((Missing(3, 3, 1),), True, 3, None)


def test_what_is_in_redelivery_is_not_missing() -> None:
    driver = driver_of(board, buffer=2, full=redeliver(delay=2))
    send(driver, 2, 5, 6)
    (gap,) = gaps(driver)
    assert gap.missing == (Missing(1, 1, 1), Missing(3, 4, 2))
    assert gap.count == 3


def test_when_it_is_given_up() -> None:
    driver = driver_of(board, gap=skip(after=30))
    send(driver, 2)
    (gap,) = gaps(driver)
    assert gap.due == driver.now + 30_000


@given(st.lists(st.integers(1, 300), min_size=1, unique=True), st.integers(1, 70))
def test_what_is_missing_and_what_waits_are_all_there_is(sequences: list[int], size: int) -> None:
    driver = driver_of(board, buffer=size, full=spill())
    send(driver, *sequences)
    last = driver.last("board", "a")
    missed = set(range(last + 1, max(sequences) + 1)) - set(sequences)
    found = gaps(driver)
    assert len(found) == bool(missed)
    for gap in found:
        assert gap.count == len(missed)
        assert gap.waiting == sum(1 for sequence in sequences if sequence > last)
        runs = [set(range(one.first, one.last + 1)) for one in gap.missing]
        assert all(len(run) == one.count for run, one in zip(runs, gap.missing, strict=True))
        told = set().union(*runs)
        assert told <= missed
        assert (told == missed) == (gap.ranges == len(gap.missing))


def entry(stream: str, since: int) -> OpenGap:
    return OpenGap(
        "board", 0, stream, 1, (Missing(2, 3, 2),), 1, 2, since, 4, False, since + 90_000
    )


def test_the_oldest_come_first_and_the_rest_is_counted() -> None:
    ledger = Ledger(now=100_000, limit=2)
    for stream, since in (("c", 30_000), ("a", 10_000), ("d", 40_000), ("b", 20_000)):
        ledger.enter([entry(stream, since)])
    assert [gap.stream for gap in ledger.gaps] == ["a", "b"]
    assert (ledger.streams, ledger.sequences) == (4, 8)
    head, first, second, total = gaps_text(ledger).splitlines()
    assert head.split()[:3] == ["age", "view", "stream"]
    assert "1 min 30 s" in first
    assert "2 to 3" in first
    assert first.endswith("due")
    assert second.endswith("in 10 s")
    assert total == "4 streams with gaps, 8 missing, 2 more not shown"


def test_no_gaps() -> None:
    assert gaps_text(Ledger(0, 10)).startswith("no gaps")


def test_no_gaps_is_not_said_over_anything_that_is_not_well() -> None:
    counts = Counts(received=9, dead=2, failed=1, parked=3, late=1, skipped=4)
    for bad in (
        Ledger(0, 10, troubles=troubles("board", counts, {}, [])),
        Ledger(0, 10, troubles=troubles("board", Counts(), {0: "by ann"}, [])),
        Ledger(0, 10, troubles=troubles("board", Counts(), {}, [0, 1])),
        Ledger(0, 10, unread=51),
        Ledger(0, 10, unseen=["only the last 9 offsets of shop.dead were read"]),
    ):
        text = gaps_text(bad)
        assert "no gaps" not in text
        assert text.startswith("nothing waits for something that is missing, but:\n")
    text = gaps_text(Ledger(0, 10, troubles=troubles("board", counts, {}, [])))
    assert "view board: 2 events in the dead topic" in text
    assert "view board: 4 sequences skipped" in text


def test_what_is_in_redelivery_waits_too() -> None:
    driver = driver_of(board, buffer=64, full=redeliver(delay=2))
    send(driver, *range(2, 300))
    (gap,) = gaps(driver)
    assert gap.waiting + gap.redelivering == 298
    ledger = Ledger(now=driver.now, limit=2)
    ledger.enter([gap])
    assert " 298 " in gaps_text(ledger)


def test_what_is_dead_is_not_missing_and_a_stream_that_waits_for_it_is_listed() -> None:
    driver = driver_of(board, buffer=4, full=redeliver(delay=1, limit=2))
    send(driver, 2, 9, 10)
    driver.advance(60)
    send(driver, 1, 3, 5)
    task = task_of(driver, of_waiting)
    (gap,) = open_gaps(task, 0, {}, {"a": {9, 10, 1}})
    assert kept_gaps(driver, dead={"a": {9, 10, 1}}) == [gap]
    assert gap.missing == (Missing(4, 4, 1), Missing(6, 8, 3))
    assert (gap.count, gap.waiting, gap.dead) == (4, 1, 2)
    ledger = Ledger(now=driver.now, limit=2)
    ledger.enter([gap])
    assert "dead" in gaps_text(ledger).splitlines()[0]
    send(driver, 4, 6, 7, 8, 12)
    task = task_of(driver, of_waiting)
    (gap,) = open_gaps(task, 0, {}, {"a": {9, 10, 11}})
    assert kept_gaps(driver, dead={"a": {9, 10, 11}}) == [gap]
    assert (gap.missing, gap.dead, gap.last) == ((), 3, 8)


def test_a_stream_s_id_is_printable_in_the_ledger() -> None:
    ledger = Ledger(now=100_000, limit=2)
    ledger.enter([entry("\x1b[31m" + "x" * 500, 1)])
    text = gaps_text(ledger)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 250


def test_many_are_not_skipped_over_what_is_there_parked_or_dead() -> None:
    gap = entry("a", 1)
    assert up_to(gap, 1) == 3
    assert up_to(replace(gap, parked=True), 1) is None
    assert up_to(replace(gap, count=None), 1) is None
    assert up_to(replace(gap, missing=(), dead=2), 1) is None
    # Sequence 2 lies in the dead topic: 3 is missing behind it.
    assert up_to(replace(gap, missing=(Missing(3, 3, 1),), dead=1), 1) is None
