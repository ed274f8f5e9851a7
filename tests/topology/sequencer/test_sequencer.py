"""The sequencer by itself: it is pure, its gaps have deadlines, its drains have a budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, batches, cuts, deliveries, moments
from tests.topology.plain_model import models
from tests.topology.sequencer.held import Held, event, events
from topology.sequencer.contiguous import ContiguousOrdering
from topology.sequencer.memory_budget import EVENT
from topology.sequencer.progress import Progress
from topology.sequencer.sequencer import Gap, Ordering

ORDERINGS = st.builds(
    ContiguousOrdering,
    size=st.sampled_from([1, 2, 64]),
    skip_after=st.sampled_from([None, 1000, 4000]),
    drain=st.sampled_from([1, 3, 10_000]),
)
MEMORY = st.sampled_from([0, 3 * EVENT, 1 << 40])
"""Bytes by which rings may grow in a step."""


@given(ordering=ORDERINGS, memory=MEMORY, arrivals=deliveries(), sizes=cuts())
def test_a_step_changes_nothing_but_what_waits_of_streams_that_it_tells_of(
    ordering: Ordering, memory: int, arrivals: list[Arrival], sizes: list[int]
) -> None:
    held = Held(ordering, memory)
    for batch in batches(events(arrivals), sizes):
        known, rows = held.picture()
        result = held.decide(list(batch), now=batch[-1].arrived)
        after, rows_after = held.picture()
        assert rows_after == rows
        assert after.keys() == known.keys()
        for stream, before in known.items():
            assert after[stream] == before or stream in result.changed
            if stream in result.before:
                assert result.before[stream] == (before["last"], before["closed"])
            else:
                assert after[stream] == before
        held.keep(result)


@given(ordering=ORDERINGS, arrivals=deliveries(), sizes=cuts(), drops=st.sets(st.integers(0, 20)))
def test_a_step_that_is_dropped_has_never_happened(
    ordering: Ordering, arrivals: list[Arrival], sizes: list[int], drops: set[int]
) -> None:
    held, other = Held(ordering), Held(ordering)
    for at, batch in enumerate(batches(events(arrivals), sizes)):
        now = batch[-1].arrived
        if at in drops:
            held.decide(list(batch), now)
            held.rebuild()
        for each in (held, other):
            each.take(*batch, now=now)
            each.finish(now)
        assert held.handled == other.handled
        assert held.meaning() == other.meaning()


def test_a_duplicate_in_a_stream_that_skipped_leaves_the_state_as_it_was() -> None:
    held = Held(ContiguousOrdering(skip_after=1000))
    held.take(event("a", 1), event("a", 3), now=5000)
    before = held.picture()

    result = held.decide([event("a", 3, at=5000), event("a", 1, at=5000)])

    assert (result.duplicates, result.changed, held.picture()) == (2, {}, before)


@given(
    order=st.permutations(range(1, 15)),
    again=st.lists(st.integers(1, 14), max_size=6),
    sizes=cuts(),
    size=st.sampled_from([1, 2, 4, 16]),
    drain=st.integers(1, 3),
    memory=MEMORY,
)
def test_a_drain_in_pieces_ends_like_a_drain_at_once(
    order: list[int], again: list[int], sizes: list[int], size: int, drain: int, memory: int
) -> None:
    """New events come between the pieces."""
    held = Held(ContiguousOrdering(size=size, drain=drain), memory)
    for batch in batches([event("a", sequence) for sequence in (*order, *again)], sizes):
        result = held.take(*batch)
        assert len(result.released) <= drain
    while held.unfinished:
        assert len(held.take().released) in range(1, drain + 1)

    assert held.handled == {"a": list(range(1, 15))}
    assert held.known == {"a": 14}
    assert not held.rows.get("a")
    assert sum(step.duplicates for step in held.steps) == len(again)


@pytest.mark.parametrize("drain", [1, 2, 3])
def test_events_that_arrive_in_the_middle_of_a_drain_find_their_place(drain: int) -> None:
    """The ring reaches 5 and 6 before it has brought in 9, which lies beyond it."""
    held = Held(ContiguousOrdering(size=4, drain=drain))
    held.take(*(event("a", sequence) for sequence in (9, 4, 3, 2)))
    for sequence in (1, 5, 6, 3, 10, 7):
        held.take(event("a", sequence))
    held.finish()
    assert held.handled == {"a": [1, 2, 3, 4, 5, 6, 7]}
    assert sorted(held.rows["a"]) == [9, 10]
    held.take(event("a", 8))
    held.finish()

    assert held.handled == {"a": list(range(1, 11))}
    assert held.known == {"a": 10}
    assert not held.rows["a"]


def test_a_gap_is_given_up_exactly_when_it_is_due() -> None:
    held = Held(ContiguousOrdering(skip_after=1000))
    held.take(event("a", 3, at=500))
    assert held.take(now=1499).ready == []

    result = held.take(now=1500)

    assert [one.sequence for one in result.ready] == [3]
    assert result.skipped == [Gap("a", first=1, last=2, since=500, count=2)]
    assert len(held.timers) == 0


def test_a_gap_lasts_from_its_event_s_arrival_whatever_time_others_came_at() -> None:
    held = Held(ContiguousOrdering(skip_after=5000))
    held.take(event("other", 1, at=10_000), now=10_000)
    result = held.take(event("a", 3, at=1000), now=10_000)
    assert result.skipped == [Gap("a", first=1, last=2, since=1000, count=2)]
    assert held.handled["a"] == [3]


def test_a_gap_is_not_given_up_before_the_caller_says_that_all_has_been_read() -> None:
    held = Held(ContiguousOrdering(skip_after=1000))
    held.take(event("a", 2, at=0), event("b", 1, at=90_000))

    assert held.handled == {"b": [1]}


def test_what_came_in_the_same_step_closes_a_gap_before_it_is_given_up() -> None:
    held = Held(ContiguousOrdering(skip_after=1000))
    held.take(event("a", 2, at=0))
    result = held.take(event("a", 1, at=5000), now=5000)

    assert [one.sequence for one in result.ready] == [1, 2]
    assert (result.skipped, result.late) == ([], [])


def test_the_gap_behind_a_gap_has_a_deadline_of_its_own() -> None:
    held = Held(ContiguousOrdering(skip_after=1000))
    held.take(event("a", 2, at=0), event("a", 4, at=600))
    held.take(now=1000)
    assert held.handled == {"a": [2]}
    held.take(now=1599)
    assert held.handled == {"a": [2]}
    held.take(now=1600)
    assert held.handled == {"a": [2, 4]}


def test_gaps_that_are_due_together_are_given_up_together() -> None:
    held = Held(ContiguousOrdering(skip_after=1000))
    held.take(event("a", 2, at=0), event("a", 4, at=600), event("b", 9, at=700))
    result = held.take(now=9000)

    assert held.handled == {"a": [2, 4], "b": [9]}
    assert [(gap.first, gap.last) for gap in result.skipped] == [(1, 1), (3, 3), (1, 8)]


def test_a_gap_that_closes_in_time_is_not_skipped() -> None:
    held = Held(ContiguousOrdering(skip_after=1000))
    held.take(event("a", 2, at=0), event("a", 1, at=999), event("a", 3, at=999))
    result = held.take(now=10_000)

    assert result.skipped == []
    assert held.known == {"a": 3}


def test_without_a_deadline_no_gap_is_ever_skipped() -> None:
    held = Held(ContiguousOrdering())
    held.take(event("a", 2))
    result = held.take(now=10**15)

    assert (result.ready, result.skipped) == ([], [])


@pytest.mark.parametrize(
    ("size", "drain"), [(1, 10_000), (2, 10_000), (64, 10_000), (64, 2), (2, 2)]
)
@given(memory=MEMORY, arrivals=deliveries())
def test_neither_ring_nor_drain_changes_when_gaps_are_given_up(
    size: int, drain: int, memory: int, arrivals: list[Arrival]
) -> None:
    """A gap's time counts from when the first event behind it arrived, ring or not.

    A drain that is cut off may give a gap up later than it is due, never earlier: what arrives in
    between is in time.
    """
    held = Held(ContiguousOrdering(size=size, skip_after=2000, drain=drain), memory)
    for at, together in moments(arrivals):
        held.take(*events(together), now=at)
        held.finish(now=at)

    expected = models(arrivals, after=2000)
    late = sum(len(step.late) for step in held.steps)
    for stream, model in expected.items():
        handled = held.handled.get(stream, [])
        assert handled == sorted(handled)
        assert {*handled, *held.rows.get(stream, ())} >= set(model.handled)
        if drain > 2:
            assert handled == model.handled
            assert sorted(held.rows.get(stream, ())) == sorted(model.waiting)
    if drain > 2:
        assert late == sum(model.late for model in expected.values())
    else:
        assert late <= sum(model.late for model in expected.values())


@pytest.mark.parametrize("size", [1, 2, 64])
def test_lost_events_between_spilled_ones_are_given_up_together(size: int) -> None:
    """They have all waited for the same time."""
    held = Held(ContiguousOrdering(size=size, skip_after=1000))
    held.take(event("a", 3), event("a", 6), event("a", 9))
    held.take(now=1000)

    assert held.handled == {"a": [3, 6, 9]}


def test_steps_wider_than_one_share_no_slots() -> None:
    held = Held(ContiguousOrdering(start=-7, step=10, size=4))
    held.take(*(event("a", -7 + 10 * index) for index in (4, 3, 2, 1)))
    progress = held.known["a"]
    assert isinstance(progress, Progress)
    assert progress.ring is not None
    assert len(progress.ring) == 3
    assert progress.spilled == 1
    held.take(event("a", -7))

    assert held.handled == {"a": [-7, 3, 13, 23, 33]}


def test_a_ring_grows_while_there_is_memory_and_no_row_beyond_it() -> None:
    held = Held(ContiguousOrdering(size=2, step=5, start=5), memory=EVENT + 1)

    def waits() -> tuple[int, int]:
        progress = held.known["a"]
        assert isinstance(progress, Progress)
        assert progress.ring is not None
        return len(progress.ring), progress.spilled

    held.take(event("a", 10), event("a", 500))
    assert waits() == (2, 0)
    held.take(event("a", 600), event("a", 5000), event("a", 50_000), event("a", 490))
    assert waits() == (5, 1)
    held.take(event("a", 500_000))
    assert waits() == (5, 2)
    held.take(event("a", 5))
    assert held.handled == {"a": [5, 10]}
    held.take(*(event("a", at) for at in range(15, 500, 5) if at != 490))
    assert held.handled == {"a": list(range(5, 505, 5))}
