"""Links: each event after the one that it names, whatever the network does."""

from typing import Any

import pytest

from tests.topology.sequencer.held import Held, event
from tests.topology.sequencer.hold_machine import Machine
from topology import Event
from topology.declaration.orders import linked
from topology.sequencer.linked import LinkedOrdering
from topology.sequencer.sequencer import LOWEST, Gap, Ordering


def previous(one: Event) -> int | None:
    return int(one.message.value) if one.message.value else None


def ordering(**more: Any) -> Ordering:
    return LinkedOrdering(previous=previous, **more)


def link(sequence: int, before: int | None, at: int = 0) -> Event:
    return event("a", sequence, at, b"" if before is None else b"%d" % before)


class LinkedMachine(Machine):
    """Without forks, the nth event of a chain is next when the one before it was the last."""

    gap_counts_once = True

    def sequence(self, nth: int) -> int:
        return nth * nth + 3 * nth - 50 if nth else LOWEST - 1

    def value(self, nth: int) -> bytes:
        return b"%d" % self.sequence(nth - 1) if nth > 1 else b""


class Patient(LinkedMachine):
    ordering = ordering()


class Small(LinkedMachine):
    ordering = ordering(size=2)


class Slow(LinkedMachine):
    ordering = ordering(size=3, drain=2)


class Hasty(LinkedMachine):
    ordering = ordering(skip_after=1000)


TestPatient, TestSmall = Patient.TestCase, Small.TestCase
TestSlow, TestHasty = Slow.TestCase, Hasty.TestCase


def test_an_event_waits_for_the_one_that_it_names() -> None:
    held = Held(ordering())
    held.take(link(40, 30), link(30, 10))
    assert held.handled == {}
    held.take(link(10, None))

    assert held.handled == {"a": [10, 30, 40]}
    assert held.known == {"a": 40}


def test_a_gap_is_given_up_up_to_the_missing_predecessor_which_is_late_when_it_comes() -> None:
    held = Held(ordering(skip_after=1000))
    held.take(link(10, None), link(40, 30), link(50, 40))
    result = held.take(now=1000)
    assert result.skipped == [Gap("a", 11, 30, since=0, count=1)]
    assert held.handled == {"a": [10, 40, 50]}

    assert [one.sequence for one in held.take(link(30, 20)).late] == [30]
    assert held.take(link(30, 20)).duplicates == 1
    assert [one.sequence for one in held.take(link(20, 10)).late] == [20]


def test_of_two_events_with_one_predecessor_the_higher_follows_the_lower() -> None:
    held = Held(ordering())
    held.take(link(10, None), link(20, 10), link(21, 10), link(30, 20))

    assert held.handled == {"a": [10, 20, 21, 30]}


def test_a_second_event_without_a_predecessor_waits_for_what_it_may_follow() -> None:
    held = Held(ordering(skip_after=1000))
    held.take(link(10, None), link(20, None), link(30, 20))
    assert held.handled == {"a": [10]}
    result = held.take(now=1000)

    assert result.skipped == [Gap("a", 11, 19, since=0, count=1)]
    assert held.handled == {"a": [10, 20, 30]}


@pytest.mark.parametrize("full", ["spill", "redeliver", "halt"])
def test_when_the_buffer_is_full_it_keeps_the_lowest(full: Any) -> None:
    held = Held(ordering(size=2, full=full))
    held.take(link(50, 40), link(40, 30))
    result = held.take(link(30, 20))

    assert result.full == (full == "halt")
    again = [one.sequence for one in result.redelivered]
    assert again == ([50] if full == "redeliver" else [])
    assert sorted(held.rows["a"]) == ([30, 40] if again else [30, 40, 50])
    held.take(link(10, None), link(20, 10), *result.redelivered)
    assert held.handled == {"a": [10, 20, 30, 40, 50]}


def test_a_gap_that_closes_says_how_long_it_lasted() -> None:
    held = Held(ordering(learn=True))
    held.take(link(10, None), link(30, 20, at=1000))
    assert held.take(link(20, 10, at=4000)).filled == [3000]


def test_a_chain_is_declared_by_a_field_or_a_function() -> None:
    assert linked("meta.previous").previous == "meta.previous"
    assert linked(previous).previous is previous
