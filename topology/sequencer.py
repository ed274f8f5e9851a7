"""The heart: the one place where order is decided. Pure: no I/O, and no clock of its own.

`step(ordering, state, timers, events)` takes a batch of events of many streams as they arrived and
returns a Step: the events that are ready, per stream in sequence; the streams' new progress; what
to add to and remove from the buffers; and what became of everything else. The state it is given is
only read: a caller that cannot make the Step durable drops it, and nothing has happened. (Timers
are an index over the state: kept up to date here, rebuilt from the state whenever it is dropped.)
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from topology.event import Event
from topology.progress import Progress, State
from topology.ring import RingBuffer
from topology.timers import Timers

LAST = 2**63 - 1
"""The highest sequence there is."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """How a view orders: `start` and `step` of the sequence, ring size, when to give a gap up.

    skip_after: milliseconds, None for never. drain: the most events that one step releases out
    of the buffers; the rest follows in the next step.
    """

    start: int = 1
    step: int = 1
    size: int = 64
    skip_after: int | None = None
    drain: int = 10_000


@dataclass(frozen=True, slots=True)
class Gap:
    """Sequences `first` to `last`, missing in front of a buffered event since `since` (ms)."""

    stream: str
    first: int
    last: int
    since: int
    count: int


@dataclass(slots=True)
class Step:
    """What one step decided.

    changed: stream → its new progress. ready: events to handle now, per stream in sequence.
    buffered: events that wait from now on, in the ring or spilled. released: events that waited and
    are ready or gone. duplicates: how many were discarded. conflicts: duplicates whose body differs
    from that of the waiting event of the same sequence. late: events whose sequence was skipped.
    skipped: gaps given up. unfinished: streams whose drain goes on in the next step.
    """

    changed: dict[str, int | Progress] = field(default_factory=dict)
    ready: list[Event] = field(default_factory=list)
    buffered: list[Event] = field(default_factory=list)
    released: list[Event] = field(default_factory=list)
    duplicates: int = 0
    conflicts: list[Event] = field(default_factory=list)
    late: list[Event] = field(default_factory=list)
    skipped: list[Gap] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)


def step(
    ordering: Ordering,
    state: State,
    timers: Timers,
    events: Iterable[Event],
    *,
    now: int | None = None,
    resume: Iterable[str] = (),
) -> Step:
    """Order a batch.

    events: in order of arrival. timers: the deadlines of gaps. now: after the events, give up the
    gaps that are due by then (ms); say so only when all that had arrived by then is known to be
    among the events so far, None otherwise. resume: streams that the step before left unfinished.
    """
    run = _Run(ordering, state, timers)
    for stream in resume:
        run.resume(stream)
    result = run.result
    changed, ready = result.changed, result.ready.append
    seen, progress_of, add = changed.get, state.progress, ordering.step
    for event in events:
        stream = event.stream
        progress = seen(stream)
        if progress is None:
            progress = progress_of(stream)
        if progress.__class__ is int and event.sequence == progress + add:
            changed[stream] = event.sequence
            ready(event)
        else:
            run.place(event, progress)
    if now is not None:
        run.fire(now)
    return result


class _Run:
    """One step's slow path: everything but the event that comes exactly when it is expected."""

    def __init__(self, ordering: Ordering, state: State, timers: Timers) -> None:
        self.ordering = ordering
        self.state = state
        self.timers = timers
        self.result = Step()
        self.budget = ordering.drain
        self.own: set[str] = set()
        """Streams whose Progress is a copy made in this step, free to change."""
        self.spilled: dict[str, dict[int, Event]] = {}
        """Events spilled in this step, which the state does not show yet."""

    def place(self, event: Event, progress: int | Progress) -> None:
        """Put an event where it belongs: late, duplicate, ready, ring or beyond."""
        result, ordering, sequence = self.result, self.ordering, event.sequence
        last = progress if isinstance(progress, int) else progress.last
        if sequence <= last:
            if isinstance(progress, Progress) and progress.has_skipped(sequence):
                progress = self.writable(event.stream, progress)
                progress.strike_skipped(sequence, ordering.step)
                result.late.append(event)
                self.keep(event.stream, progress)
            else:
                result.duplicates += 1
            return
        progress = self.writable(event.stream, progress)
        if sequence == last + ordering.step and not progress.waiting:
            progress.last = sequence
            result.ready.append(event)
            self.keep(event.stream, progress)
            return
        ring = progress.ring
        if ring is None:
            ring = progress.ring = RingBuffer(ordering.size, ordering.step)
        if sequence == last + ordering.step and ring.get(sequence) is None:
            progress.last = sequence
            result.ready.append(event)
            self.drain(event.stream, progress, event.arrived)
        elif (waits := self.waiting(progress, ring, event)) is not None:
            result.duplicates += 1
            if waits.message.value != event.message.value:
                result.conflicts.append(event)
        else:
            if not progress.waiting:
                progress.since = event.arrived
                self.watch(event.stream, progress)
            if ring.reaches(last, sequence):
                ring.put(event)
            else:
                if not progress.spilled:
                    progress.loaded = last + ring.size * ring.step
                progress.spilled += 1
                self.spilled.setdefault(event.stream, {})[sequence] = event
            result.buffered.append(event)
        self.keep(event.stream, progress)

    def waiting(self, progress: Progress, ring: RingBuffer, event: Event) -> Event | None:
        """The event that waits already under this one's sequence."""
        if ring.reaches(progress.last, event.sequence):
            found = ring.get(event.sequence)
            if found is not None:
                return found
        if not progress.spilled or event.sequence <= progress.loaded:
            return None
        here = self.spilled.get(event.stream, {}).get(event.sequence)
        if here is not None:
            return here
        rows = self.state.spilled(event.stream, event.sequence, event.sequence)
        return next(iter(rows), None)

    def drain(self, stream: str, progress: Progress, now: int) -> None:
        """Release the contiguous run behind `last`, up to the step's budget."""
        ring, add, release = progress.ring, self.ordering.step, self.result.released.append
        assert ring is not None
        ready = self.result.ready.append
        moved = False
        while True:
            event = ring.get(progress.last + add)
            if event is None:
                if progress.spilled and self.load(stream, progress, ring):
                    continue
                break
            if self.budget <= 0:
                self.result.unfinished.append(stream)
                return
            self.budget -= 1
            ring.pop(event.sequence)
            progress.last = event.sequence
            release(event)
            ready(event)
            moved = True
        if progress.waiting:
            if moved:
                waits = ring.slots.values() or self.beyond(stream, progress)
                progress.since = min(event.arrived for event in waits)
                self.watch(stream, progress)
        else:
            self.timers.discard(stream)

    def load(self, stream: str, progress: Progress, ring: RingBuffer) -> bool:
        """Bring spilled events into the ring that it reaches by now; whether there were any."""
        # Rows up to `last` may still be there: what this step releases goes when it is durable.
        first = max(progress.loaded, progress.last) + 1
        end = min(progress.last + ring.size * ring.step, LAST)
        if first > end:
            return False
        progress.loaded = end
        here = self.spilled.get(stream, {})
        found = [here.pop(sequence) for sequence in sorted(here) if sequence <= end]
        if progress.spilled > len(found) + len(here):
            found += self.state.spilled(stream, first, end)
        # Rows of events that came when the ring reached them already are not spilled ones.
        spilled = [event for event in found if ring.get(event.sequence) is None]
        for event in spilled:
            ring.put(event)
        progress.spilled -= len(spilled)
        return bool(spilled)

    def beyond(self, stream: str, progress: Progress) -> list[Event]:
        """The first of the events beyond the ring, of those in rows and of this step's own."""
        here = self.spilled.get(stream, {})
        found = [here[min(here)]] if here else []
        if progress.spilled > len(here):
            first = max(progress.loaded, progress.last) + 1
            found += islice(self.state.spilled(stream, first, LAST), 1)
        return [min(found, key=lambda event: event.sequence)]

    def fire(self, now: int) -> None:
        """Give up every gap that is due by `now`; a gap behind it may be due as well."""
        while (stream := self.timers.pop(now)) is not None:
            progress = self.current(stream)
            if not isinstance(progress, Progress) or not progress.waiting:
                continue
            assert self.ordering.skip_after is not None
            due = progress.since + self.ordering.skip_after
            if due > now:
                self.timers.add(due, stream)
                continue
            progress = self.writable(stream, progress)
            self.skip(stream, progress, now)
            self.keep(stream, progress)

    def skip(self, stream: str, progress: Progress, now: int) -> None:
        """Go on with the first event that waits."""
        add = self.ordering.step
        ring = progress.ring = progress.ring or RingBuffer(self.ordering.size, add)
        first = progress.last + add
        if progress.spilled:
            self.load(stream, progress, ring)
        waits = ring.slots.values() or self.beyond(stream, progress)
        head = min(event.sequence for event in waits)
        if head > first:
            gap = Gap(stream, first, head - add, progress.since, (head - first) // add)
            self.result.skipped.append(gap)
            progress.add_skipped(gap.first, gap.last)
            progress.last = gap.last
        self.drain(stream, progress, now)

    def resume(self, stream: str) -> None:
        progress = self.current(stream)
        if isinstance(progress, Progress) and progress.waiting:
            progress = self.writable(stream, progress)
            progress.ring = progress.ring or RingBuffer(self.ordering.size, self.ordering.step)
            self.drain(stream, progress, progress.since)
            self.keep(stream, progress)

    def watch(self, stream: str, progress: Progress) -> None:
        if self.ordering.skip_after is not None:
            self.timers.add(progress.since + self.ordering.skip_after, stream)

    def current(self, stream: str) -> int | Progress:
        progress = self.result.changed.get(stream)
        return self.state.progress(stream) if progress is None else progress

    def writable(self, stream: str, progress: int | Progress) -> Progress:
        if isinstance(progress, int):
            self.own.add(stream)
            return Progress(progress)
        if stream not in self.own:
            self.own.add(stream)
            return progress.copy()
        return progress

    def keep(self, stream: str, progress: Progress) -> None:
        plain = progress.plain()
        if isinstance(plain, int):
            self.own.discard(stream)
        self.result.changed[stream] = plain
