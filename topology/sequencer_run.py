"""One step's slow path: what all orders have in common."""

from collections.abc import Iterable

from topology.event import Event
from topology.progress import Progress, State
from topology.ring import RingBuffer
from topology.sequencer_step import Ordering, Step
from topology.timers import Timers


class Run:
    """A step in the making. A subclass per order says where an event belongs, and what is next."""

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
        raise NotImplementedError

    def drain(self, stream: str, progress: Progress) -> bool:
        """Release what is next, up to the step's budget; whether there was anything."""
        raise NotImplementedError

    def due(self, stream: str, progress: Progress, now: int) -> None:
        """What waits at the head has waited long enough: go on."""
        raise NotImplementedError

    @staticmethod
    def deadline(ordering: Ordering, progress: Progress) -> int | None:
        """When a stream that waits, and is not held, is to go on all the same (ms)."""
        if ordering.skip_after is None:
            return None
        return progress.since + ordering.skip_after

    @staticmethod
    def can_go_on(ordering: Ordering, progress: Progress) -> bool:
        """Whether the first of the events that wait is the next one."""
        raise NotImplementedError

    @staticmethod
    def before(ordering: Ordering, event: Event, last: int) -> int:
        """The progress behind which `event` was released, `last` being the last processed."""
        raise NotImplementedError

    @staticmethod
    def ring(ordering: Ordering) -> RingBuffer:
        """An empty buffer."""
        return RingBuffer(ordering.size, ordering.step)

    def wait(self, event: Event, progress: Progress, ring: RingBuffer) -> None:
        """Let an event wait that is not the next one, and does not wait already."""
        result, stream, waits = self.result, event.stream, progress.waiting
        if ring.admits(progress.last, event.sequence):
            ring.put(event)
        # What a held stream gets waits for a person, however long that takes.
        elif self.ordering.full == "redeliver" and not progress.held:
            result.redelivered.append(event)
            return
        else:
            if not progress.spilled:
                progress.loaded = ring.end(progress.last)
            progress.spilled += 1
            self.spilled.setdefault(stream, {})[event.sequence] = event
            result.full |= self.ordering.full == "halt" and not progress.held
        result.buffered.append(event)
        if not waits:
            progress.since = event.arrived
            self.watch(stream, progress)

    def duplicate(self, event: Event, waits: Event) -> None:
        """Discard an event as `waits` waits already under its sequence."""
        self.result.duplicates += 1
        if waits.message.value != event.message.value:
            self.result.conflicts.append(event)

    def waiting(self, progress: Progress, ring: RingBuffer, event: Event) -> Event | None:
        """The event that waits already under this one's sequence."""
        if (found := ring.find(progress.last, event.sequence)) is not None:
            return found
        if not progress.spilled or event.sequence <= progress.loaded:
            return None
        here = self.spilled.get(event.stream, {}).get(event.sequence)
        if here is not None:
            return here
        rows = self.state.spilled(event.stream, event.sequence, event.sequence)
        return next(iter(rows), None)

    def release(self, event: Event, progress: Progress) -> None:
        """An event that waited is ready."""
        self.budget -= 1
        progress.last = event.sequence
        progress.retry = None
        self.result.released.append(event)
        self.result.ready.append(event)

    def fire(self, now: int) -> None:
        """Go on with every stream whose deadline is reached by `now`."""
        while (stream := self.timers.pop(now)) is not None:
            progress = self.current(stream)
            if not isinstance(progress, Progress) or not progress.waiting:
                continue
            due = deadline_of(type(self), self.ordering, progress)
            if due is None:
                continue
            if due > now:
                self.timers.add(due, stream)
                continue
            progress = self.writable(stream, progress)
            if progress.held:
                progress.held = False
                self.go_on(stream, progress)
            else:
                self.due(stream, progress, now)
            self.keep(stream, progress)

    def resume(self, streams: Iterable[str]) -> None:
        """Go on with drains that the step before left unfinished, and with what was held."""
        for stream in streams:
            progress = self.current(stream)
            if isinstance(progress, Progress) and progress.waiting and not progress.held:
                progress = self.writable(stream, progress)
                self.go_on(stream, progress)
                self.keep(stream, progress)

    def go_on(self, stream: str, progress: Progress) -> None:
        progress.ring = progress.ring or self.ring(self.ordering)
        if not self.drain(stream, progress) and progress.waiting:
            self.watch(stream, progress)

    def watch(self, stream: str, progress: Progress) -> None:
        """Set the deadline of a stream that waits."""
        due = deadline_of(type(self), self.ordering, progress)
        if due is not None:
            self.timers.add(due, stream)

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


def deadline_of(run: type[Run], ordering: Ordering, progress: Progress) -> int | None:
    """When a stream that waits is to go on all the same (ms), None if never."""
    if progress.held:
        return None if progress.retry is None else progress.retry.due
    return run.deadline(ordering, progress)
