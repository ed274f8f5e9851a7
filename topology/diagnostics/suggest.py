"""Which time to give gaps, tried on what has been recorded before anyone switches it on.

Each candidate is run by the sequencer itself over the recorded arrivals, so that a suggestion says
what would have happened, not what a formula expects.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

from topology.declaration.policies import Adaptive, GapTime
from topology.diagnostics.timeout_trial import Trial
from topology.engine.state.lateness import Lateness
from topology.model.counted import counted
from topology.model.event import Event, Record
from topology.sequencer.contiguous import ContiguousOrdering
from topology.sequencer.ordering import Ordering
from topology.sequencer.progress import Progress

RATES = (0.1, 0.01, 0.001, 0.0001)
"""Shares of wrong skips for which a time is suggested unless others are asked for."""

TELL = 5_000
"""Events from one word about the progress to the next."""

Arrived = tuple[str, int, int]
"""(stream, sequence, when it arrived in ms)."""

Partition = Callable[[], Iterable[Event]]
"""The events that arrived in one partition, in order; asked for once for each time to try."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What `skip(after=…)` would have done to recorded arrivals.

    Attributes:
        after: the time that was tried, in seconds.
        wrong_skip: the share of the late events that were given up before they came.
        wrong: how many these were.
        skipped: sequences given up, wrongly or lost for good.
        waiting: events that still wait at the end.
        mean_delay: mean time that events waited for their turn, in seconds.
        p99_delay: the 99th percentile of that time, in seconds.
        max_delay: the longest such time, in seconds.
        events: all events.
        streams: streams with a late event.
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
            f"skip(after={self.after:g}): {self.wrong_skip:.4%} of late events skipped "
            f"({self.wrong}, {self.wrong / max(1, self.events):.4%} of all events, in "
            f"{counted(self.streams, 'stream')}), {self.skipped} skipped, {self.waiting} waiting; "
            f"delay {self.mean_delay:.3f} s in the mean, {self.p99_delay:.3f} s at 99%, "
            f"{self.max_delay:.3f} s at most"
        )


class Suggested(NamedTuple):
    """suggestions: one for each time, shortest first. learned: the seconds that `adaptive(…)` would
    have arrived at, in the partition where they are least and in the one where they are most.
    late: lateness in ms → how many events came so late.
    """

    suggestions: list[Suggestion]
    learned: tuple[float, float]
    late: Mapping[int, int] = {}


def suggest_timeouts(
    arrivals: Iterable[Arrived],
    *,
    rates: Sequence[float] = RATES,
    candidates: Sequence[float] = (),
    start: int = 1,
    add: int = 1,
    ordering: Ordering | None = None,
) -> list[Suggestion]:
    """Back-test times to hold gaps for.

    Args:
        arrivals: (stream, sequence, arrived in ms), in order of arrival.
        rates: shares of wrong skips. For each, the shortest time that keeps to it is tried, as far
            as lateness was recorded.
        candidates: more times to try, in seconds.
        start: the first sequence of a stream.
        add: the distance of neighbouring sequences.
        ordering: the ordering of the view it is for, with its ring and its start.

    Returns:
        One suggestion per time, shortest first; none where there are no arrivals.
    """
    events = [_event(*arrival) for arrival in arrivals]
    ordering = ordering or ContiguousOrdering(start, add, size=1 << 40)
    # What a kind begins or ends is not among the arrivals.
    ordering = replace(ordering, opens=frozenset(), closes=frozenset())
    return suggested([lambda: events], ordering, rates=rates, candidates=candidates).suggestions


def suggested(
    partitions: Sequence[Partition],
    ordering: Ordering,
    *,
    rates: Sequence[float] = RATES,
    candidates: Sequence[float] = (),
    policy: GapTime | None = None,
    progress: Callable[[int], None] = lambda number: None,
) -> Suggested:
    """The same of events with their kinds, each partition by its own clock, as a worker has it.

    policy: what would have learned. progress: told how many events more were tried.
    """
    late: Counter[int] = Counter()
    learned: list[float] = []
    patient, events = replace(ordering, skip_after=None), 0
    for partition in partitions:
        sketch, count = Lateness(), _Told(progress)
        for _, result in Trial(patient).run(count.events(partition())):
            for lateness in result.filled:
                late[lateness] += 1
                sketch.add(lateness)
        if count.number:
            learned.append(sketch.after(policy or Adaptive()) / 1000)
        events += count.number
    if not events:
        return Suggested([], (0.0, 0.0))
    times = {ceil(seconds * 1000) for seconds in candidates}
    for rate in rates if late else ():
        kept = late.total() - int(late.total() * rate)
        times.add(max(1, _nth(late, kept)) if kept else 1)
    return Suggested(
        [_tried(replace(ordering, skip_after=t), partitions, progress) for t in sorted(times)],
        (min(learned), max(learned)),
        late,
    )


def learned(
    arrivals: Iterable[Arrived], policy: Adaptive, *, start: int = 1, add: int = 1
) -> float:
    """The seconds that `adaptive(…)` would have arrived at after these arrivals."""
    events = [_event(*arrival) for arrival in arrivals]
    ordering = ContiguousOrdering(start, add, size=1 << 40)
    return suggested([lambda: events], ordering, rates=(), policy=policy).learned[1]


class _Told:
    """Counts events as they pass, and says so now and then."""

    def __init__(self, progress: Callable[[int], None]) -> None:
        self.number = 0
        self._progress = progress

    def events(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            yield event
            self.number += 1
            if self.number % TELL == 0:
                self._progress(TELL)


def _tried(
    ordering: Ordering, partitions: Sequence[Partition], progress: Callable[[int], None]
) -> Suggestion:
    delays: Counter[int] = Counter()
    events = wrong = skipped = late = waiting = 0
    touched: set[str] = set()
    for partition in partitions:
        trial, count = Trial(ordering), _Told(progress)
        for at, result in trial.run(count.events(partition())):
            delays.update(max(at - event.arrived, 0) for event in result.ready)
            wrong += len(result.late)
            touched.update(event.stream for event in result.late)
            late += len(result.late) + len(result.filled)
            skipped += sum(gap.count for gap in result.skipped)
        events += count.number
        waiting += sum(p.waiting for p in trial.known.values() if isinstance(p, Progress))
    assert ordering.skip_after is not None
    handled = delays.total()
    return Suggestion(
        after=ordering.skip_after / 1000,
        wrong_skip=wrong / late if late else 0.0,
        wrong=wrong,
        skipped=skipped,
        waiting=waiting,
        mean_delay=sum(ms * n for ms, n in delays.items()) / handled / 1000 if handled else 0.0,
        p99_delay=_nth(delays, ceil(handled * 0.99)) / 1000,
        max_delay=max(delays, default=0) / 1000,
        events=events,
        streams=len(touched),
    )


def _nth(counts: Counter[int], number: int) -> int:
    """The value at a place, counted from 1, among the values in order; 0 where there is none."""
    for value in sorted(counts):
        number -= counts[value]
        if number <= 0:
            return value
    return 0


def _event(stream: str, sequence: int, arrived: int) -> Event:
    return Event(stream, sequence, None, None, Record("", 0, 0, None, None), arrived)
