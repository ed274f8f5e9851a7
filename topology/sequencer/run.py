"""One step's slow path: what all orders have in common."""

from collections.abc import Iterable, Iterator
from heapq import merge

from topology.model.event import Event
from topology.sequencer.memory_budget import size_of
from topology.sequencer.ordering import LAST, Ordering
from topology.sequencer.progress import Progress, State
from topology.sequencer.ring import RingBuffer
from topology.sequencer.step import Step
from topology.sequencer.timers import Timers


class Run:
    """A step in the making. A subclass per order says where an event belongs, and what is next."""

    def __init__(self, ordering: Ordering, state: State, timers: Timers) -> None:
        self.ordering = ordering
        self.state = state
        self.timers = timers
        self.result = Step()
        self.budget = ordering.drain
        self.room = ordering.portion
        self.memory = 0
        self.own: set[str] = set()
        """Streams whose Progress this step has taken over, or made."""
        self.spilled: dict[str, dict[int, Event]] = {}
        """Events spilled in this step, which the state does not show yet."""
        self.gone: set[tuple[str, int]] = set()
        """(stream, sequence) of those that left the buffer unhandled; the state shows them yet."""

    def place_all(self, events: Iterable[Event]) -> None:
        """Place a batch, in order of arrival."""
        for event in events:
            self.place(event, self.current(event.stream))

    def place(self, event: Event, progress: int | Progress) -> None:
        """Put an event where it belongs: late, duplicate, ready, ring or beyond."""
        raise NotImplementedError

    def drain(self, stream: str, progress: Progress) -> bool:
        """Release what is next, up to the step's budget; whether there was anything."""
        raise NotImplementedError

    def due(self, stream: str, progress: Progress, now: int) -> None:
        """What waits at the head has waited long enough: go on."""
        raise NotImplementedError

    @property
    def spent(self) -> bool:
        """Whether the step has released as much out of the buffers as it may."""
        return self.budget <= 0 or self.room <= 0

    def wait(self, event: Event, progress: Progress, ring: RingBuffer) -> None:
        """Let an event wait that is not the next one, and does not wait already."""
        waits = progress.waiting
        if ring.admits(progress.last, event.sequence) or self.grow(event, progress, ring):
            ring.put(event)
            self.result.buffered.append(event)
        else:
            # A ring that had grown reached farther than the one that took its place.
            end = ring.end(progress.last)
            progress.loaded = min(progress.loaded, end) if progress.spilled else end
            if not self.beyond(event, progress):
                return
        if not waits:
            progress.since = event.arrived
            self.watch(event.stream, progress)

    def grow(self, event: Event, progress: Progress, ring: RingBuffer) -> bool:
        """Make the ring reach an event, if there is memory for what is beyond rings and no row."""
        if self.memory <= 0 or progress.spilled or self.ordering.full != "spill":
            return False
        self.memory -= size_of(event)
        ring.grow(progress.last, event.sequence)
        return True

    def beyond(self, event: Event, progress: Progress, waited: bool = False) -> bool:
        """Put an event, which waited so far or is new, beyond the ring; whether it waits there."""
        result, stream = self.result, event.stream
        if self.redelivers(progress):
            if waited:
                result.released.append(event)
                self.gone.add((stream, event.sequence))
            result.redelivered.append(event)
            progress.rejected = max(self.timers.clock, event.arrived)
            return False
        progress.spilled += 1
        self.spilled.setdefault(stream, {})[event.sequence] = event
        result.full |= self.ordering.full == "halt" and not progress.suspended
        if not waited:
            result.buffered.append(event)
        return True

    def redelivers(self, progress: Progress) -> bool:
        """Whether what is beyond the ring comes again, rather than wait as rows."""
        ordering = self.ordering
        # What a held stream gets waits for a person, however long that takes.
        if ordering.full != "redeliver" or progress.suspended:
            return False
        # And where a stream has yet to begin, nobody can say how far the ring will reach.
        starts = ordering.open_after is not None or bool(ordering.opens)
        return not (starts and ordering.is_new(progress))

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
        self.room -= size_of(event)
        self.result.released.append(event)
        self.advance(event, progress)

    def advance(self, event: Event, progress: Progress) -> None:
        """An event is ready: the stream is at it now, and may begin again or end with it."""
        progress.last = event.sequence
        progress.retry = None
        self.result.ready.append(event)
        if progress.closed is not None or event.kind in self.ordering.closes:
            self.begin_or_end(event, progress)

    def begin_or_end(self, event: Event, progress: Progress) -> None:
        """The stream is at an event now, handled or not: if it is closed, it begins again with it;
        and it may end with it."""
        ordering, result = self.ordering, self.result
        self.reopen(event, progress)
        if event.kind in ordering.closes:
            due = max(self.timers.clock, event.arrived) + ordering.retention
            progress.closed = result.closed[event.stream, event.sequence] = due
            if ordering.reopen == "late":
                self.drop_below(event.stream, progress, LAST + 1)
            elif progress.waiting:
                self.begin_again(event.stream, progress)
                # What waits for a start may have another deadline than what waits behind a gap.
                self.watch(event.stream, progress)

    def reopen(self, event: Event, progress: Progress) -> None:
        """If its stream is closed, it starts again with `event`."""
        if progress.closed is not None:
            progress.closed = None
            self.result.reopened.append(event)

    def begin_again(self, stream: str, progress: Progress) -> None:
        """A stream was closed, but the event that begins it again may be waiting."""
        ordering = self.ordering
        if not ordering.opens:
            return
        waits = [*(progress.ring or ()), *self.rows_beyond(stream, progress)]
        openers = [event for event in waits if event.kind in ordering.opens]
        if openers:
            event = min(openers, key=_sequence)
            self.begin_with(event, progress)
            self.reopen(event, progress)

    def stays_closed(self, progress: Progress, event: Event) -> bool:
        """Whether a stream is closed, and `event` is of no kind that begins it again."""
        opens = self.ordering.opens
        return progress.closed is not None and bool(opens) and event.kind not in opens

    def shut(self, event: Event, progress: int | Progress) -> bool:
        """Whether an event above `last` is late, as its stream is closed for good."""
        if event.arrived > self.timers.clock:
            self.timers.clock = event.arrived
        if isinstance(progress, int) or progress.closed is None or self.ordering.reopen == "start":
            return False
        self.result.late.append(event)
        return True

    def may_be_next(self, event: Event, progress: Progress) -> bool:
        """Whether an event above `last` may be the next: not if another kind has to begin first."""
        ordering = self.ordering
        if not ordering.opens or not ordering.is_new(progress):
            return True
        if progress.suspended or event.kind not in ordering.opens:
            return False
        ring = progress.ring or ordering.ring()
        if progress.waiting and self.waiting(progress, ring, event) is not None:
            return False  # A copy of what waits begins nothing, whatever it says.
        self.begin_with(event, progress)
        return True

    def begin_with(self, event: Event, progress: Progress) -> None:
        """A stream begins with `event`, whatever is below it."""
        self.drop_below(event.stream, progress, event.sequence)
        before = self.ordering.before(event, progress.last)
        progress.begin_behind(event.sequence - self.ordering.step, self.ordering.step)
        progress.last = before
        self.drop_impossible(event.stream, progress)

    def impossible(self, sequence: int, progress: int | Progress) -> bool:
        """Whether a sequence is farther above its stream than any can be."""
        ordering = self.ordering
        last = progress if isinstance(progress, int) else progress.last
        if sequence - last <= ordering.jump:
            return False
        # A stream that is joined midway may begin anywhere.
        midway = ordering.open_after is not None or bool(ordering.opens)
        return not (midway and ordering.is_new(progress))

    def drop_impossible(self, stream: str, progress: Progress) -> None:
        """Now that it is known where the stream is, what waits may turn out to be impossible."""
        if not progress.waiting:
            return
        ring, lost = progress.ring, []
        for event in ring or ():
            if ring is not None and self.impossible(event.sequence, progress):
                ring.pop(event.sequence)
                lost.append(event)
        if progress.spilled:
            for event in list(self.rows_beyond(stream, progress)):
                if self.impossible(event.sequence, progress):
                    progress.spilled -= 1
                    self.spilled.get(stream, {}).pop(event.sequence, None)
                    lost.append(event)
        self.gone |= {(stream, event.sequence) for event in lost}
        self.result.released += lost
        self.result.impossible += lost
        if lost and not progress.waiting:
            self.timers.discard(stream)

    def drop_below(self, stream: str, progress: Progress, sequence: int) -> None:
        """What waits below `sequence` waits in vain: it is late."""
        if not progress.waiting:
            return
        result, ring = self.result, progress.ring
        lost = [event for event in ring or () if event.sequence < sequence]
        for event in lost:
            if ring is not None:
                ring.pop(event.sequence)
            self.gone.add((stream, event.sequence))
        if progress.spilled:
            for event in list(self.rows_beyond(stream, progress)):
                if event.sequence < sequence:
                    progress.spilled -= 1
                    self.gone.add((stream, event.sequence))
                    self.spilled.get(stream, {}).pop(event.sequence, None)
                    lost.append(event)
        result.released += lost
        result.late += lost
        if not progress.waiting:
            self.timers.discard(stream)

    def rows_beyond(self, stream: str, progress: Progress) -> Iterator[Event]:
        """The events beyond the ring, of those in rows and of this step's own, in sequence."""
        here = dict(self.spilled.get(stream, {}))
        rows: Iterable[Event] = ()
        if progress.spilled > len(here):
            first = max(progress.loaded, progress.last) + 1
            ring = progress.ring
            rows = (
                event
                for event in self.state.spilled(stream, first, LAST)
                if event.sequence not in here
                and (stream, event.sequence) not in self.gone
                and (ring is None or ring.find(progress.last, event.sequence) is None)
            )
        own = sorted(here.values(), key=_sequence)
        return merge(rows, own, key=_sequence)

    def fire(self, now: int) -> None:
        """Go on with every stream whose deadline is reached by `now`."""
        self.timers.clock = max(self.timers.clock, now)
        while (stream := self.timers.pop(now)) is not None:
            progress = self.current(stream)
            if not isinstance(progress, Progress) or not progress.waiting:
                continue
            due = self.ordering.deadline(progress)
            if due is None:
                continue
            if due > now:
                self.timers.add(due, stream)
                continue
            if self.spent:
                # It is due still, in the step that follows.
                self.timers.add(due, stream)
                return
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
            if self.spent:
                self.result.unfinished.append(stream)
                continue
            progress = self.current(stream)
            if isinstance(progress, Progress) and progress.waiting and not progress.suspended:
                progress = self.writable(stream, progress)
                self.go_on(stream, progress)
                self.keep(stream, progress)

    def go_on(self, stream: str, progress: Progress) -> None:
        progress.ring = progress.ring or self.ordering.ring()
        if not self.drain(stream, progress) and progress.waiting:
            self.watch(stream, progress)

    def watch(self, stream: str, progress: Progress) -> None:
        """Set the deadline of a stream that waits."""
        due = self.ordering.deadline(progress)
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
            self.result.before[stream] = progress.last, progress.closed
        return progress

    def keep(self, stream: str, progress: Progress) -> None:
        if progress.ring is not None and progress.ring.slots:
            self.result.changed[stream] = progress
            return
        plain = progress.plain()
        if isinstance(plain, int):
            self.own.discard(stream)
        self.result.changed[stream] = plain


def _sequence(event: Event) -> int:
    return event.sequence
