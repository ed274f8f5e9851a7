"""Which time to give gaps, tried on what has been recorded before anyone switches it on.

Each candidate is run by the sequencer itself over the recorded arrivals, so that a suggestion says
what would have happened, not what a formula expects.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

from topology.event import Event, Record
from topology.lateness import Lateness
from topology.on_gap import Adaptive
from topology.progress import Progress
from topology.sequencer import LAST, Ordering, Step, step
from topology.timers import Timers

RATES = (0.1, 0.01, 0.001, 0.0001)
"""Shares of wrong skips for which a time is suggested unless others are asked for."""

Arrived = tuple[str, int, int]
"""(stream, sequence, when it arrived in ms)."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What skip(after=…) would have done to the recorded arrivals.

    after: seconds. wrong_skip: of the events that came late, the share that was given up before it
    came. wrong: how many. skipped: sequences given up, wrong or lost for good. waiting: events that
    still wait at the end. mean_delay, p99_delay, max_delay: seconds that events waited for their
    turn, over all events that were handled.
    """

    after: float
    wrong_skip: float
    wrong: int
    skipped: int
    waiting: int
    mean_delay: float
    p99_delay: float
    max_delay: float

    def __str__(self) -> str:
        return (
            f"skip(after={self.after:g}): {self.wrong_skip:.4%} of late events given up "
            f"({self.wrong}), {self.skipped} skipped, {self.waiting} waiting; delay "
            f"{self.mean_delay:.3f} s in the mean, {self.p99_delay:.3f} s at 99%, "
            f"{self.max_delay:.3f} s at most"
        )


def suggest_timeouts(
    arrivals: Iterable[Arrived],
    *,
    rates: Sequence[float] = RATES,
    candidates: Sequence[float] = (),
    start: int = 1,
    add: int = 1,
) -> list[Suggestion]:
    """Back-test times to hold gaps for.

    arrivals: what was recorded, in order of arrival. rates: for each of these shares of wrong skips
    the shortest time that keeps to it is tried, as far as lateness was recorded. candidates:
    seconds to try as well. start, add: the first sequence and the distance of neighbours. Returns
    one suggestion per time, shortest first; no arrivals, no suggestions.
    """
    events = [_event(*arrival) for arrival in arrivals]
    if not events:
        return []
    ordering = Ordering(start, add, size=1 << 40)
    latenesses = sorted(_latenesses(ordering, events))
    times = {ceil(seconds * 1000) for seconds in candidates}
    for rate in rates if latenesses else ():
        kept = len(latenesses) - int(len(latenesses) * rate)
        times.add(max(1, latenesses[kept - 1]) if kept else 1)
    return [_tried(replace(ordering, skip_after=after), events) for after in sorted(times)]


def learned(
    arrivals: Iterable[Arrived], policy: Adaptive, *, start: int = 1, add: int = 1
) -> float:
    """The seconds that `adaptive(…)` would have arrived at after these arrivals."""
    events = [_event(*arrival) for arrival in arrivals]
    sketch = Lateness()
    for lateness in _latenesses(Ordering(start, add, size=1 << 40), events):
        sketch.add(lateness)
    return sketch.after(policy) / 1000


class _Memory:
    """The sequencer's State: all rings fit into memory here."""

    def __init__(self, first: int) -> None:
        self.known: dict[str, int | Progress] = {}
        self.first = first

    def progress(self, stream: str) -> int | Progress:
        return self.known.get(stream, self.first)

    def spilled(self, stream: str, first: int, last: int) -> Iterator[Event]:
        return iter(())


def _latenesses(ordering: Ordering, events: Iterable[Event]) -> Iterator[int]:
    """How late each late event came, in ms, if no gap is ever given up."""
    state, timers = _Memory(ordering.start - ordering.step), Timers()
    patient = replace(ordering, learn=True)
    for event in events:
        result = _settled(patient, state, timers, [event])
        yield from result.filled


def _tried(ordering: Ordering, events: Sequence[Event]) -> Suggestion:
    state, timers = _Memory(ordering.start - ordering.step), Timers()
    learning = replace(ordering, learn=True)
    delays: list[int] = []
    wrong = skipped = late = 0

    def take(batch: Sequence[Event], at: int, now: int | None = None) -> None:
        nonlocal wrong, skipped, late
        result = _settled(learning, state, timers, batch, now)
        delays.extend(max(at - event.arrived, 0) for event in result.ready)
        wrong += len(result.late)
        late += len(result.late) + len(result.filled)
        skipped += sum(gap.count for gap in result.skipped)

    for event in events:
        # What arrives in the very moment in which a gap is due is in time.
        while (due := timers.next) < event.arrived:
            take((), int(due), int(due))
        take((event,), event.arrived)
    while (due := timers.next) < inf:
        take((), int(due), int(due))
    delays.sort()
    waiting = sum(p.waiting for p in state.known.values() if isinstance(p, Progress))
    assert ordering.skip_after is not None
    return Suggestion(
        after=ordering.skip_after / 1000,
        wrong_skip=wrong / late if late else 0.0,
        wrong=wrong,
        skipped=skipped,
        waiting=waiting,
        mean_delay=sum(delays) / len(delays) / 1000 if delays else 0.0,
        p99_delay=delays[ceil(len(delays) * 0.99) - 1] / 1000 if delays else 0.0,
        max_delay=delays[-1] / 1000 if delays else 0.0,
    )


def _settled(
    ordering: Ordering,
    state: _Memory,
    timers: Timers,
    events: Sequence[Event],
    now: int | None = None,
) -> Step:
    """One step whose outcome is kept."""
    result = step(replace(ordering, drain=LAST), state, timers, events, now=now)
    state.known.update(result.changed)
    return result


def _event(stream: str, sequence: int, arrived: int) -> Event:
    return Event(stream, sequence, None, None, Record("", 0, 0, None, None), arrived)
