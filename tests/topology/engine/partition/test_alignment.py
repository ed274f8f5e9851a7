"""Partitions of a source are read in the order of their times, and none is waited for in vain."""

import math
from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from topology.engine.partition.alignment import PATIENCE, Alignment


def test_a_partition_that_is_ahead_waits_for_the_slowest() -> None:
    alignment = Alignment(1_000)
    alignment.note("a", 5_000, 0)
    alignment.note("b", 1_000, 0)
    assert alignment.may_take("b", 1_000, 0)
    assert not alignment.may_take("a", 5_000, 0)
    assert alignment.may_take("a", 2_000, 0)
    alignment.note("b", 4_000, 0)
    assert alignment.may_take("a", 5_000, 0)


def test_one_of_which_nothing_is_known_yet_is_waited_for_and_an_idle_one_is_not() -> None:
    alignment = Alignment(0)
    alignment.note("b", -math.inf, 0)
    assert not alignment.may_take("a", 5_000, 0)
    alignment.note("b", None, 0)
    assert alignment.may_take("a", 5_000, 0)
    alignment.note("b", 0, 0)
    assert not alignment.may_take("a", 5_000, 0)
    alignment.leave("b")
    assert alignment.may_take("a", 5_000, 0)


def test_one_that_stands_still_is_waited_for_no_longer_and_that_is_counted_once() -> None:
    """Its broker is away, or its clock says the same time for ever."""
    alignment = Alignment(0)
    alignment.note("b", 0, 0)
    assert not alignment.may_take("a", 5_000, PATIENCE - 1)
    assert alignment.may_take("a", 5_000, PATIENCE)
    assert alignment.may_take("a", 6_000, PATIENCE)
    assert alignment.passed == 1
    alignment.note("b", 10, PATIENCE)
    assert not alignment.may_take("a", 7_000, PATIENCE)


def test_who_has_waited_for_long_waits_no_more_until_the_others_have_caught_up() -> None:
    """A day's backlog in one partition is no reason to read another one a batch a minute."""
    alignment = Alignment(1_000)
    alignment.note("behind", 0, 0)
    assert not alignment.may_take("live", 5_000, 0)
    alignment.overtake("live", 5_000)
    for time in range(1_000, 9_000, 1_000):
        alignment.note("behind", time, time)
        assert alignment.may_take("live", 6_000 + time, time)
    assert not alignment.may_take("another", 60_000, 9_000)  # which has not waited yet
    alignment.note("behind", 14_000, 9_000)
    assert alignment.may_take("live", 15_000, 9_000)
    assert not alignment.may_take("live", 15_001, 9_000)  # it is waited for again
    alignment.overtake("live", 60_000)
    alignment.leave("live")
    assert not alignment.may_take("live", 60_000, 9_000)


def test_a_time_that_was_wrong_holds_until_the_next_one_only() -> None:
    """As where a batch ends with a record of tomorrow; what is a bit out of order is not wrong."""
    alignment = Alignment(0)
    alignment.note("b", 86_400_000, 0)
    assert alignment.may_take("a", 5_000, 0)
    alignment.note("b", 1_000, 0)
    assert not alignment.may_take("a", 5_000, 0)
    alignment.note("b", 5_000, 0)
    alignment.note("b", 4_000, 0)
    assert alignment.may_take("a", 5_000, 0)


@given(
    st.lists(st.lists(st.integers(0, 20), max_size=30), min_size=1, max_size=5),
    st.integers(0, 30),
    st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_all_is_read_and_what_is_in_order_by_time_is_read_in_order(
    steps: list[list[int]], bound: int, wrong: list[bool]
) -> None:
    """Whatever the clocks say; those that are right are at most `bound` apart, and no time passes
    but where all wait."""
    times = []
    for steps_of_one in steps:
        at, of_one = 0, []
        for step in steps_of_one:
            of_one.append(at := at + step)
        times.append(of_one)
    left = [
        deque(of_one if not bad else [7 for _ in of_one])
        for of_one, bad in zip(times, wrong, strict=False)
    ]
    alignment, now, taken = Alignment(bound), 0, list[int]()
    for number, each in enumerate(left):
        alignment.note(number, each[0] if each else None, now)
    while any(left):
        waited = True
        for number, each in enumerate(left):
            if each and alignment.may_take(number, each[0], now):
                time = each.popleft()
                if not wrong[number]:
                    taken.append(time)
                alignment.note(number, each[0] if each else None, now)
                waited = False
        assert not (waited and now > 3 * PATIENCE)
        now += PATIENCE // 2 if waited else 0
    if not any(wrong):
        highest = -math.inf
        for time in taken:
            assert time >= highest - bound
            highest = max(highest, time)
