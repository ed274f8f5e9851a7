"""A stream that is held: its events wait in order, others go on, nothing is lost or repeated."""

import pytest

from tests.topology.sequencer.held import Held, event
from tests.topology.sequencer.hold_machine import Machine
from topology.sequencer.contiguous import ContiguousOrdering
from topology.sequencer.memory_budget import EVENT
from topology.sequencer.progress import PendingRetry, Progress
from topology.sequencer.sequencer import Gap, Step, hold


class Patient(Machine):
    ordering = ContiguousOrdering()


class Small(Machine):
    ordering = ContiguousOrdering(size=2)


class Growing(Machine):
    ordering = ContiguousOrdering(size=2, drain=3)
    memory = 4 * EVENT


class Slow(Machine):
    ordering = ContiguousOrdering(size=3, drain=2)


class Hasty(Machine):
    ordering = ContiguousOrdering(skip_after=1000)


TestPatient, TestSmall = Patient.TestCase, Small.TestCase
TestGrowing, TestSlow, TestHasty = Growing.TestCase, Slow.TestCase, Hasty.TestCase


def fail(held: Held, result: Step, sequence: int, retry: PendingRetry | None = None) -> Step:
    """The event of stream `a` with that sequence fails."""
    (failed,) = (one for one in result.ready if one.sequence == sequence)
    hold(held.ordering, held, held.timers, result, "a", failed, retry)
    return held.keep(result)


def test_what_came_in_the_same_batch_waits_and_what_had_waited_goes_on_waiting() -> None:
    held = Held(ContiguousOrdering())
    held.take(event("a", 4), event("a", 5))
    batch = [event("a", 1), event("a", 2), event("a", 3)]
    result = fail(held, held.decide(batch), 2)

    assert [one.sequence for one in result.ready] == [1]
    assert [one.sequence for one in result.buffered] == [2, 3]
    assert result.released == []
    progress = held.known["a"]
    assert isinstance(progress, Progress)
    assert (progress.last, progress.held, progress.waiting) == (1, True, 4)


def test_a_gap_behind_the_failed_event_is_not_given_up() -> None:
    held = Held(ContiguousOrdering(skip_after=1000))
    held.take(event("a", 3), event("a", 6))
    result = fail(held, held.decide([], now=1000), 3)

    assert result.skipped == [Gap("a", 1, 2, since=0, count=2)]
    assert held.rows["a"].keys() == {3, 6}
    assert held.take(now=10_000).ready == []
    held.release("a")
    assert held.handled == {"a": [3]}
    held.take(now=10_000)
    assert held.handled == {"a": [3, 6]}


def test_a_retry_goes_on_by_itself_when_it_is_due_and_is_forgotten_when_it_succeeds() -> None:
    held = Held(ContiguousOrdering())
    fail(held, held.decide([event("a", 1), event("a", 2)]), 1, PendingRetry(1, due=5000))
    held.take(event("a", 3, at=100), now=4999)
    assert held.handled == {}
    held.rebuild()
    assert held.timers.next == 5000

    before = held.known["a"]
    assert isinstance(before, Progress)
    assert before.retry == PendingRetry(1, 5000)
    again = held.decide([], now=5000)
    fail(held, again, 1, PendingRetry(2, due=9000))
    held.take(now=9000)

    assert held.handled == {"a": [1, 2, 3]}
    assert held.known == {"a": 3}


def test_a_held_stream_spills_what_another_would_have_redelivered() -> None:
    held = Held(ContiguousOrdering(size=2, full="redeliver"))
    fail(held, held.decide([event("a", 1)]), 1)
    result = held.take(*(event("a", sequence) for sequence in range(2, 7)))
    assert result.redelivered == []
    held.release("a")

    assert held.handled == {"a": [1, 2, 3, 4, 5, 6]}


def test_beyond_the_ring_an_event_comes_again_and_leaves_nothing_behind() -> None:
    held = Held(ContiguousOrdering(size=2, full="redeliver"))
    result = held.take(event("a", 2), event("a", 3), event("a", 4))
    assert [one.sequence for one in result.redelivered] == [3, 4]
    assert [one.sequence for one in result.buffered] == [2]
    held.take(event("a", 1), event("a", 3), event("a", 4))

    assert held.handled == {"a": [1, 2, 3, 4]}
    assert held.known["a"] == 4


def test_but_the_lowest_event_waits_even_there() -> None:
    """A gap that is longer than the ring would not show otherwise, nor ever be given up."""
    held = Held(ContiguousOrdering(size=2, skip_after=100, full="redeliver"))
    result = held.take(event("a", 9, at=5), event("a", 10, at=6), event("a", 8, at=7))
    assert [one.sequence for one in result.buffered] == [9, 8]
    assert [one.sequence for one in result.redelivered] == [10]
    assert held.timers.next == 105
    held.take(event("a", 10, at=90), now=105)
    assert held.handled == {"a": [8, 9]}
    held.take(event("a", 10, at=110))
    assert held.handled == {"a": [8, 9, 10]}
    assert held.known["a"] != 10  # the gap that was given up is remembered


def test_beyond_the_ring_of_a_view_that_halts_an_event_is_kept_and_the_step_says_so() -> None:
    held = Held(ContiguousOrdering(size=2, full="halt"))
    assert not held.take(event("a", 2)).full
    result = held.take(event("a", 9))

    assert result.full
    assert [one.sequence for one in result.buffered] == [9]


def test_a_gap_that_closes_says_how_long_it_lasted_if_asked() -> None:
    for learn in (True, False):
        held = Held(ContiguousOrdering(learn=learn))
        held.take(event("a", 4, at=1000), event("a", 2, at=1500), event("a", 6, at=1500))
        assert held.take(event("a", 1, at=2000)).filled == ([1000] if learn else [])
        assert held.take(event("a", 3, at=4000)).filled == ([3000] if learn else [])
        assert held.take(event("a", 7, at=4000)).filled == []
        assert held.take(event("a", 5, at=2000)).filled == ([500] if learn else [])


def kinds(held: Held, *sent: tuple[int, str], at: int = 0) -> Step:
    batch = [event("a", sequence, at) for sequence, _ in sent]
    for one, (_, kind) in zip(batch, sent, strict=True):
        object.__setattr__(one, "kind", kind)
    return held.decide(batch)


CLOSES = ContiguousOrdering(closes=frozenset(["Closed"]), retention=1000, reopen="start")


def test_a_closing_event_that_fails_has_not_closed_its_stream() -> None:
    held = Held(CLOSES)
    fail(held, kinds(held, (1, "Placed"), (2, "Closed"), (3, "Placed")), 2)
    progress = held.known["a"]
    assert isinstance(progress, Progress)
    assert (progress.last, progress.closed, progress.waiting) == (1, None, 2)
    held.release("a")

    assert held.handled == {"a": [1, 2, 3]}
    assert held.known["a"] == 3


@pytest.mark.parametrize("together", [True, False])
def test_a_stream_that_was_to_start_again_with_an_event_that_fails_is_still_closed(
    together: bool,
) -> None:
    held = Held(CLOSES)
    if together:
        result = fail(held, kinds(held, (1, "Closed"), (2, "Placed"), at=500), 2)
    else:
        held.keep(kinds(held, (1, "Closed"), at=500))
        result = fail(held, kinds(held, (2, "Placed"), at=600), 2)
    progress = held.known["a"]
    assert isinstance(progress, Progress)
    assert (progress.last, progress.closed, progress.held) == (1, 1500, True)
    assert result.reopened == []
    held.rebuild()

    assert [one.sequence for one in held.release("a").reopened] == [2]
    assert held.known["a"] == 2


def test_an_opening_event_that_fails_opens_its_stream_when_it_is_released() -> None:
    held = Held(ContiguousOrdering(opens=frozenset(["Opened"])))
    fail(held, kinds(held, (1, "Opened"), (2, "Placed")), 1)
    held.keep(kinds(held, (5, "Opened")))
    held.rebuild()
    held.finish()
    assert held.handled == {}
    held.release("a")

    assert held.handled == {"a": [1, 2]}
    assert sorted(held.rows["a"]) == [5]
