"""What begins, and what commits: in the order of arrival, or of each stream."""

import pytest

from tests.topology.ordered_commit.driven import Driven
from topology.ordered_commit import FailureOutcome


def test_effects_commit_in_the_order_of_arrival() -> None:
    driven = Driven()
    driven.arrive("a", "b", "c")
    assert driven.begin() == [0, 1, 2]
    driven.finish(2)
    assert driven.commit() == []
    driven.finish(1)
    assert driven.commit() == []
    driven.finish(0)
    assert driven.commit() == [0, 1, 2]


def test_a_worker_that_is_done_takes_the_next_event_at_once() -> None:
    driven = Driven()
    driven.arrive("a", "b", "c")
    assert driven.begin(2) == [0, 1]
    driven.finish(1)
    assert driven.begin(1) == [2], "though 1 waits for its turn"


def test_events_ordered_by_stream_commit_without_waiting_for_other_streams() -> None:
    driven = Driven(order="stream")
    driven.arrive("a", "b", "a", "b")
    assert driven.begin() == [0, 1]
    driven.finish(1)
    assert driven.commit() == [1]
    assert driven.begin() == [3]
    driven.finish(3)
    assert driven.commit() == [3]
    assert (driven.core.position, list(driven.core.done)) == (0, [(1, 2), (3, 4)])


def test_messages_without_a_key_run_unordered_not_as_one_key() -> None:
    driven = Driven(order="stream")
    driven.arrive(None, None, None)
    assert driven.begin() == [0, 1, 2], "side by side"
    driven.finish(2, 1)
    assert driven.commit() == [2, 1]


def test_the_events_of_a_stream_run_one_after_the_other() -> None:
    driven = Driven()
    driven.arrive("a", "a", "b")
    assert driven.begin() == [0, 2]
    driven.finish(0)
    assert driven.begin() == [1], "on the staged state of the former"


def test_the_events_of_a_stream_run_side_by_side_if_it_is_declared() -> None:
    driven = Driven(order="stream", within_stream="parallel")
    driven.arrive("a", "a", "a")
    assert driven.begin() == [0, 1, 2]
    driven.finish(1)
    assert driven.commit() == [], "they commit in order all the same"
    driven.finish(0)
    assert driven.commit() == [0, 1]


@pytest.mark.parametrize(
    ("start", "begun"),
    [("arrival", [1, 2, 3, 4]), ("any", [2, 3, 4, 1]), (lambda event: -event.offset, [4, 3, 2, 1])],
)
def test_events_begin_in_the_order_of_arrival_or_any_or_by_a_function(
    start: object, begun: list[int]
) -> None:
    driven = Driven(start=start, order="stream")
    driven.arrive("a")
    driven.begin()
    driven.arrive("a", "b", "c", "d")
    driven.finish(0)
    driven.commit()
    assert driven.begin() == begun


def test_a_function_of_the_start_that_fails_puts_its_event_last() -> None:
    def start(event: object) -> float:
        raise ValueError

    driven = Driven(start=start)
    driven.arrive("a", "b")
    assert driven.begin() == [0, 1]


def test_a_unit_that_was_not_made_is_taken_again() -> None:
    driven = Driven()
    driven.arrive("a", "b")
    driven.begin()
    driven.finish(0, 1)
    taken = driven.core.take_commits(0.0)
    assert driven.core.take_commits(0.0) == [], "one unit at a time"
    assert driven.core.commit_failed(0.0) == ()
    assert driven.core.take_commits(0.0) == taken


def test_what_failed_to_commit_is_rolled_back_with_what_ran_on_it() -> None:
    driven = Driven()
    driven.arrive("a", "b", "a")
    driven.begin()
    driven.finish(0, 1)
    driven.begin()
    driven.finish(2)
    taken = driven.core.take_commits(0.0)
    fallen = driven.core.commit_failed(0.0, taken[0])
    assert [grant.offset for grant in fallen] == [2, 0], "newest first"
    assert driven.begin() == [0]
    driven.finish(0)
    assert driven.commit() == [0, 1]


def test_failures_are_retried_with_a_backoff_and_then_the_error_policy_decides() -> None:
    driven = Driven(retries=2, backoff=1.0)
    driven.arrive("a")
    for delay in (1.0, 2.0):
        driven.begin()
        assert driven.core.failed(driven.grants[0], driven.now) is FailureOutcome.RETRIED
        assert driven.core.due == driven.now + delay
        driven.pass_time(delay / 2)
        assert driven.begin() == []
        driven.pass_time(delay / 2)
    assert driven.begin() == [0]
    assert driven.core.failed(driven.grants[0], driven.now) is FailureOutcome.UNSETTLED
    assert driven.begin() == [], "its stream waits for the decision"
    driven.finish(0)
    assert driven.commit() == [0], "what the error policy makes of it is committed at its turn"


def test_the_error_policy_may_have_an_event_handled_again() -> None:
    driven = Driven(retries=0)
    driven.arrive("a")
    driven.begin()
    assert driven.core.failed(driven.grants[0], 0.0) is FailureOutcome.UNSETTLED
    assert driven.core.retry(driven.grants[0], 5.0, 0.0)
    assert not driven.core.retry(driven.grants[0], 5.0, 0.0), "the grant is old"
    assert driven.begin() == []
    driven.pass_time(5.0)
    assert driven.begin() == [0]
    assert driven.core.failed(driven.grants[0], 5.0) is FailureOutcome.UNSETTLED


def test_what_is_rolled_back_begins_before_what_was_about_to_begin_on_it() -> None:
    driven = Driven(start=lambda event: -event.offset)
    driven.arrive("a", "a")
    driven.begin(1)
    driven.finish(0)
    taken = driven.core.take_commits(0.0)
    driven.core.commit_failed(0.0, taken[0])
    assert driven.begin() == [0]
    driven.finish(0)
    assert driven.begin() == [1]


@pytest.mark.parametrize("order", ["arrival", "stream"])
def test_a_unit_that_is_full_leaves_the_rest_to_the_next_in_the_same_order(order: str) -> None:
    driven = Driven(order=order)
    driven.arrive("a", "b", "a", "c")
    for size, offset in ((10, 0), (50, 1), (10, 2), (10, 3)):
        driven.begin()
        driven.finish(offset, size=size)
    units = []
    while taken := driven.core.take_commits(0.0, most=25):
        units.append([grant.offset for grant in taken])
        driven.core.committed(0.0)
    assert sorted(offset for unit in units for offset in unit) == [0, 1, 2, 3]
    assert all(unit == [1] or 1 not in unit for unit in units)
    assert driven.core.position == 4
