"""Values that merely grow: settled, then in sequence; what is remembered is a duplicate."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.topology.sequencer.held import Held, event
from tests.topology.sequencer.hold_machine import Machine
from topology.sequencer.monotonic import MonotonicOrdering
from topology.sequencer.progress import RECENT_KEPT
from topology.sequencer.sequencer import LOWEST, Ordering


def ordering(**more: Any) -> Ordering:
    return MonotonicOrdering(settle=1000, **more)


class SettlingModel:
    """One stream: what waits, and what is remembered."""

    def __init__(self) -> None:
        self.last = 0
        self.waiting: dict[int, int] = {}
        self.handled: list[int] = []
        self.remembered: list[int] = []
        self.bad: set[int] = set()
        self.held = False
        self.received = self.duplicates = self.late = self.skipped = 0

    def arrive(self, sequence: int, at: int) -> None:
        self.received += 1
        if sequence > self.last:
            self.duplicates += sequence in self.waiting
            self.waiting.setdefault(sequence, at)
        elif sequence in self.remembered[-RECENT_KEPT:]:
            self.duplicates += 1
        else:
            self.late += 1
            self.remembered.append(sequence)

    def advance(self, at: int) -> None:
        settled = [one for one, since in self.waiting.items() if since + 1000 <= at]
        for sequence in sorted(self.waiting):
            if self.held or not settled or sequence > max(settled):
                return
            if sequence in self.bad:
                self.held = True
                return
            self.last = sequence
            del self.waiting[sequence]
            self.handled.append(sequence)
            self.remembered.append(sequence)

    def redrive(self) -> None:
        self.held = False


class MonotonicMachine(Machine):
    def model(self) -> SettlingModel:
        return SettlingModel()

    def sequence(self, nth: int) -> int:
        return 7 * nth if nth else LOWEST - 1


class Roomy(MonotonicMachine):
    ordering = ordering()


class Small(MonotonicMachine):
    ordering = ordering(size=2)


class Slow(MonotonicMachine):
    ordering = ordering(size=3, drain=2)


TestRoomy, TestSmall, TestSlow = Roomy.TestCase, Small.TestCase, Slow.TestCase


def test_an_event_is_released_when_it_has_settled_and_not_before() -> None:
    held = Held(ordering())
    held.take(event("a", 70, at=500))
    assert held.take(now=1499).ready == []
    held.take(now=1500)

    assert held.handled == {"a": [70]}


def test_everything_lower_goes_with_it_however_short_it_has_waited() -> None:
    held = Held(ordering())
    held.take(event("a", 70, at=0), event("a", 90, at=400))
    held.take(event("a", 50, at=999))
    held.take(now=1000)
    assert held.handled == {"a": [50, 70]}
    held.take(now=1400)
    assert held.handled == {"a": [50, 70, 90]}


def test_what_comes_too_low_is_late_once_and_what_is_remembered_a_duplicate() -> None:
    held = Held(ordering())
    held.take(event("a", 70), event("a", 90))
    held.take(now=1000)
    held.rebuild()

    assert [one.sequence for one in held.take(event("a", 80)).late] == [80]
    result = held.take(event("a", 80), event("a", 70), event("a", 90))
    assert (result.duplicates, result.late) == (3, [])


def test_without_being_told_what_has_arrived_nothing_is_released() -> None:
    held = Held(ordering())
    held.take(event("a", 70, at=0), event("a", 80, at=99_000))
    assert held.handled == {}


def test_a_waiting_event_with_another_body_is_a_conflict() -> None:
    held = Held(ordering())
    result = held.take(event("a", 70, value=b"1"), event("a", 70, value=b"2"))
    assert (result.duplicates, len(result.conflicts)) == (1, 1)


@given(arrivals=st.lists(st.integers(1, 60), min_size=1, max_size=60))
def test_the_memory_of_a_stream_is_bounded(arrivals: list[int]) -> None:
    held = Held(ordering())
    for at, sequence in enumerate(arrivals):
        held.take(event("a", sequence, at=at * 300), now=at * 300)
    progress = held.known["a"]
    assert len(getattr(progress, "recent", ())) <= RECENT_KEPT
    assert held.handled.get("a", []) == sorted(set(held.handled.get("a", [])))


def test_of_what_is_appended_no_copy_is_late_however_old() -> None:
    held = Held(ordering(appended=True))
    sent = [event("a", number, at=0) for number in range(100)]
    held.take(*sent, now=0)
    held.take(now=2000)
    assert held.handled == {"a": list(range(100))}
    again = held.take(*sent, now=3000)
    assert (again.late, again.duplicates) == ([], 100)
