"""Timers: the deadlines of gaps, earliest first."""

import math

from topology.sequencer.timers import Timers


def test_deadlines_come_earliest_first_and_not_before_they_are_due() -> None:
    timers = Timers()
    for due, stream in ((30, "c"), (10, "a"), (20, "b")):
        timers.add(due, stream)

    assert timers.next == 10
    assert timers.pop(9) is None
    assert [timers.pop(25), timers.pop(25), timers.pop(25)] == ["a", "b", None]
    assert timers.next == 30


def test_without_deadlines_the_next_one_never_comes() -> None:
    timers = Timers()
    assert timers.next == math.inf
    assert timers.pop(10**15) is None
    assert len(timers) == 0
