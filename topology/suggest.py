"""Which time to give gaps, tried on what has been recorded before anyone switches it on.

Each candidate is run by the sequencer itself over the recorded arrivals, so that a suggestion says
what would have happened, not what a formula expects.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
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

TELL = 5_000
"""Events from one word about the progress to the next."""

Arrived = tuple[str, int, int]
"""(stream, sequence, when it arrived in ms)."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What skip(after=…) would have done to the recorded arrivals.

    after: seconds. wrong_skip: of the events that came late, the share that was given up before it
    came. wrong: how many. skipped: sequences given up, wrong or lost for good. waiting: events that
    still wait at the end. mean_delay, p99_delay, max_delay: seconds that events waited for their
    turn, over all events that were handled. events: all that came; streams: those that an event
    came late in.
    """

    after: float
    wrong_skip: float
    wrong: int
    skipped: int
    waiting: int
    mean_delay: float
    p99_delay: float
    max_delay: float
    events: int = 0
    streams: int = 0

    def __str__(self) -> str:
        return (
            f"skip(after={self.after:g}): {self.wrong_skip:.4%} of late events given up "
            f"({self.wrong}, {self.wrong / max(1, self.events):.4%} of all events, in "
            f"{self.streams} streams), {self.skipped} skipped, {self.waiting} waiting; delay "
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
    ordering: Ordering | None = None,
    progress: Callable[[int], None] = lambda number: None,
) -> list[Suggestion]:
    """Back-test times to hold gaps for.

    arrivals: what was recorded, in order of arrival. rates: for each of these shares of wrong skips
    the shortest time that keeps to it is tried, as far as lateness was recorded. candidates:
    seconds to try as well. start, add: the first sequence and the distance of neighbours.
    ordering: that of the view it is for, with its ring and where its streams begin. progress: told
    how many events more were tried. Returns one suggestion per time, shortest first; no arrivals,
    no suggestions.
    """
    events = [_event(*arrival) for arrival in arrivals]
    if not events:
        return []
    ordering = ordering or Ordering(start, add, size=1 << 40)
    # What a kind begins or ends is not among the arrivals, and neither is what comes again.
    ordering = replace(ordering, full="spill", opens=frozenset(), closes=frozenset())
    latenesses = sorted(_latenesses(ordering, _told(events, progress)))
    times = {ceil(seconds * 1000) for seconds in candidates}
    for rate in rates if latenesses else ():
        kept = len(latenesses) - int(len(latenesses) * rate)
        times.add(max(1, latenesses[kept - 1]) if kept else 1)
    return [
        _tried(replace(ordering, skip_after=after), events, progress) for after in sorted(times)
    ]


def _told(events: Sequence[Event], progress: Callable[[int], None]) -> Iterator[Event]:
    """The events, and a word now and then."""
    for number, event in enumerate(events, 1):
        yield event
        if number % TELL == 0:
            progress(TELL)


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
    """The sequencer's State. waiting: stream → sequence → event, in the ring or beyond it."""

    def __init__(self, first: int) -> None:
        self.known: dict[str, int | Progress] = {}
        self.waiting: dict[str, dict[int, Event]] = {}
        self.first = first

    def progress(self, stream: str) -> int | Progress:
        return self.known.get(stream, self.first)

    def spilled(self, stream: str, first: int, last: int) -> Iterator[Event]:
        waits = self.waiting.get(stream, {})
        return (waits[n] for n in sorted(waits) if first <= n <= last)

    def keep(self, result: Step) -> None:
        self.known.update(result.changed)
        for event in result.buffered:
            self.waiting.setdefault(event.stream, {})[event.sequence] = event
        for event in result.released:
            waits = self.waiting.get(event.stream)
            if waits is not None:
                waits.pop(event.sequence, None)
                if not waits:
                    del self.waiting[event.stream]


def _latenesses(ordering: Ordering, events: Iterable[Event]) -> Iterator[int]:
    """How late each late event came, in ms, if no gap is ever given up."""
    state, timers = _Memory(ordering.start - ordering.step), Timers()
    patient = replace(ordering, learn=True, skip_after=None)
    for event in events:
        while (due := timers.next) < event.arrived:
            yield from _settled(patient, state, timers, (), int(due)).filled
        result = _settled(patient, state, timers, [event])
        yield from result.filled


def _tried(
    ordering: Ordering, events: Sequence[Event], progress: Callable[[int], None]
) -> Suggestion:
    state, timers = _Memory(ordering.start - ordering.step), Timers()
    learning = replace(ordering, learn=True)
    delays: list[int] = []
    wrong = skipped = late = 0
    touched: set[str] = set()

    def take(batch: Sequence[Event], at: int, now: int | None = None) -> None:
        nonlocal wrong, skipped, late
        result = _settled(learning, state, timers, batch, now)
        delays.extend(max(at - event.arrived, 0) for event in result.ready)
        wrong += len(result.late)
        touched.update(event.stream for event in result.late)
        late += len(result.late) + len(result.filled)
        skipped += sum(gap.count for gap in result.skipped)

    for event in _told(events, progress):
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
        events=len(events),
        streams=len(touched),
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
    state.keep(result)
    return result


def _event(stream: str, sequence: int, arrived: int) -> Event:
    return Event(stream, sequence, None, None, Record("", 0, 0, None, None), arrived)
