"""Contiguous numbers: the next event is the one whose sequence is `last` + `step`."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from topology.model.event import Event
from topology.sequencer.memory_budget import EVENT, size_of
from topology.sequencer.ordering import LAST, Ordering
from topology.sequencer.progress import Progress, State, may_be_lost, was_skipped
from topology.sequencer.ring import RingBuffer
from topology.sequencer.run import Run
from topology.sequencer.step import Gap
from topology.sequencer.timers import Timers


@dataclass(frozen=True, slots=True)
class ContiguousOrdering(Ordering):
    """Every number from `start` on, by `step`, has its event."""

    counts: ClassVar[bool] = True

    def run(self, state: State, timers: Timers) -> "ContiguousRun":
        return ContiguousRun(self, state, timers)

    def has_next(self, progress: Progress) -> bool:
        ring = progress.ring
        head = None if ring is None else ring.get(progress.last + self.step)
        return head is not None and self.may_begin(progress, head)

    def before(self, event: Event, last: int) -> int:
        return event.sequence - self.step


class ContiguousRun(Run):
    """An event that comes exactly when it is expected changes a number, and nothing else."""

    def __init__(self, ordering: Ordering, state: State, timers: Timers) -> None:
        super().__init__(ordering, state, timers)
        self.watches = ordering.skip_after is not None or ordering.open_after is not None

    def place_all(self, events: Iterable[Event]) -> None:
        ordering = self.ordering
        if ordering.opens or ordering.closes:
            super().place_all(events)
            return
        result, own = self.result, self.own
        changed, ready, before = result.changed, result.ready.append, result.before
        seen, progress_of, add = changed.get, self.state.progress, ordering.step
        buffered, jump, timers = result.buffered.append, ordering.jump, self.timers
        for event in events:
            stream, sequence = event.stream, event.sequence
            progress = seen(stream)
            if progress is None:
                progress = progress_of(stream)
            if isinstance(progress, int):
                if sequence == progress + add:
                    changed[stream] = sequence
                    ready(event)
                elif sequence <= progress:
                    result.duplicates += 1
                elif not self.begins_to_wait(event, progress):
                    self.place(event, progress)
                continue
            # Most that come now wait like others of their stream.
            ring, last = progress.ring, progress.last
            ahead = sequence - last
            if (
                add < ahead <= jump and ring is not None and ahead <= ring.size * add
                and ring.slots and (slot := sequence // add % ring.size) not in ring.slots
                and not (progress.spilled or progress.held or progress.rebuild)
                and progress.closed is None
            ):  # fmt: skip
                if stream not in own:
                    # As `writable` does.
                    own.add(stream)
                    before[stream] = last, None
                    changed[stream] = progress
                # As `put` does.
                ring.slots[slot] = event
                ring.bytes += EVENT + 2 * len(event.message.value or b"")
                buffered(event)
                if event.arrived > timers.clock:
                    timers.clock = event.arrived
            elif not self.ends_wait(event, progress):
                self.place(event, progress)

    def begins_to_wait(self, event: Event, last: int) -> bool:
        """Let the first event of a stream wait in its ring, as `place` does; False where there is
        more to it than that."""
        ordering, stream, ahead = self.ordering, event.stream, event.sequence - last
        if ahead > ordering.size * ordering.step or ahead > ordering.jump:
            return False
        if event.arrived > self.timers.clock:
            self.timers.clock = event.arrived
        ring = ordering.ring()
        ring.put(event)
        progress = Progress(last, ring, 0, event.arrived)
        self.own.add(stream)
        if self.watches:
            self.watch(stream, progress)
        self.result.buffered.append(event)
        self.result.changed[stream] = progress
        return True

    def ends_wait(self, event: Event, progress: Progress) -> bool:
        """Let the next event of a stream end what those in its ring wait for, as `place` does;
        False where there is more to it than that."""
        ring, sequence, last, ordering = progress.ring, event.sequence, progress.last, self.ordering
        if (
            ring is None or not ring.slots or progress.spilled
            or progress.held or progress.rebuild or progress.closed is not None
            or sequence - last != ordering.step or sequence // ring.step % ring.size in ring.slots
            or (ordering.open_after is not None and ordering.is_new(progress))
        ):  # fmt: skip
            return False
        stream, result = event.stream, self.result
        progress = self.writable(stream, progress)
        if event.arrived > self.timers.clock:
            self.timers.clock = event.arrived
        since = progress.since
        progress.last, progress.retry = sequence, None
        result.ready.append(event)
        if self.drain(stream, progress) and ordering.learn:
            result.filled.append(max(0, event.arrived - since))
        self.keep(stream, progress)
        return True

    def place(self, event: Event, progress: int | Progress) -> None:
        result, ordering, sequence = self.result, self.ordering, event.sequence
        last = progress if isinstance(progress, int) else progress.last
        if sequence <= last:
            if was_skipped(progress, sequence) or may_be_lost(progress, event):
                progress = self.writable(event.stream, progress)
                progress.strike_skipped(sequence, ordering.step)
                result.late.append(event)
                self.keep(event.stream, progress)
            else:
                result.duplicates += 1
            return
        if self.shut(event, progress):
            return
        if sequence - last > ordering.jump and self.impossible(sequence, progress):
            result.impossible.append(event)
            return
        stream = event.stream
        if isinstance(progress, int) or stream not in self.own:
            progress = self.writable(stream, progress)
        may_be = not ordering.opens or self.may_be_next(event, progress)
        last, ring = progress.last, progress.ring
        is_next = may_be and sequence == last + ordering.step and not progress.suspended
        if is_next and not progress.spilled and (ring is None or not ring.slots):
            self.advance(event, progress)
            self.keep(stream, progress)
            return
        if ring is None:
            ring = progress.ring = ordering.ring()
        waits = (
            self.waiting(progress, ring, event) if progress.spilled else ring.find(last, sequence)
        )
        if is_next and waits is None:
            since = progress.since
            begins = ordering.open_after is not None and ordering.is_new(progress)
            self.advance(event, progress)
            if begins:
                self.drop_impossible(stream, progress)
            moved = self.drain(stream, progress)
            if moved and ordering.learn:
                result.filled.append(max(0, event.arrived - since))
            elif begins and not moved and progress.waiting:
                # From now on it waits for a gap, and no longer for where it begins.
                self.watch(stream, progress)
        elif waits is not None:
            self.duplicate(event, waits)
        elif sequence - last <= ring.size * ring.step:
            if not progress.waiting:
                progress.since = event.arrived
                self.watch(stream, progress)
            ring.put(event)
            result.buffered.append(event)
        else:
            self.wait(event, progress, ring)
        self.keep(stream, progress)

    def wait(self, event: Event, progress: Progress, ring: RingBuffer) -> None:
        """Beyond the ring, as any order does; but the lowest event waits here.

        Without it nothing would show that the stream has a gap, if that is longer than the ring.
        """
        if not self.redelivers(progress):
            super().wait(event, progress, ring)
        elif ring or (
            progress.spilled
            and self.lowest_beyond(event.stream, progress)[0].sequence < event.sequence
        ):
            progress.rejected = event.arrived
            super().wait(event, progress, ring)
        else:
            if not progress.spilled:
                progress.loaded = ring.end(progress.last)
                progress.since = event.arrived
                self.watch(event.stream, progress)
            progress.spilled += 1
            self.spilled.setdefault(event.stream, {})[event.sequence] = event
            self.result.buffered.append(event)

    def drain(self, stream: str, progress: Progress) -> bool:
        ring, add = progress.ring, self.ordering.step
        assert ring is not None
        moved, released = False, self.result.released.append
        if not progress.spilled and progress.closed is None and not self.ordering.closes:
            moved = self.drain_ring(progress, ring)
        while ring.slots or progress.spilled:
            event = ring.get(progress.last + add)
            if event is None:
                if not progress.spilled:
                    break
                if self.spent:
                    if self.has_beyond(stream, progress, progress.last + add):
                        self.result.unfinished.append(stream)
                        return moved
                    break
                if self.load(stream, progress, ring):
                    continue
                break
            if progress.closed is not None and self.stays_closed(progress, event):
                break
            if self.budget <= 0 or self.room <= 0:
                self.result.unfinished.append(stream)
                return moved
            before = ring.bytes
            ring.pop(event.sequence)
            self.budget -= 1
            self.room -= before - ring.bytes
            released(event)
            self.advance(event, progress)
            moved = True
        if progress.waiting:
            if moved:
                waits = ring.slots.values() or self.lowest_beyond(stream, progress)
                # What was beyond the ring until now may be on its way back: it gets its time.
                progress.since = max(_first_arrival(waits, progress.since), progress.rejected)
                self.watch(stream, progress)
        else:
            progress.rejected = 0
            self.timers.discard(stream)
        return moved

    def drain_ring(self, progress: Progress, ring: RingBuffer) -> bool:
        """Release what is next in the ring, where nothing but its events decides what is."""
        slots, add, size = ring.slots, self.ordering.step, ring.size
        pop, found = slots.pop, list[Event]()
        append, at = found.append, progress.last // ring.step % size
        if len(slots) <= self.budget and ring.bytes <= self.room:
            while (event := pop(at := (at + 1) % size, None)) is not None:
                append(event)
            taken = sum(map(size_of, found)) if slots else ring.bytes
        else:
            taken = 0
            while len(found) < self.budget and taken < self.room:
                event = pop(at := (at + 1) % size, None)
                if event is None:
                    break
                taken += size_of(event)
                append(event)
        if found:
            ring.bytes -= taken
            self.budget -= len(found)
            self.room -= taken
            progress.last, progress.retry = progress.last + add * len(found), None
            self.result.released += found
            self.result.ready += found
        return bool(found)

    def load(self, stream: str, progress: Progress, ring: RingBuffer) -> bool:
        """Bring spilled events into the ring that it reaches by now; whether there were any."""
        # Rows up to `last` may still be there: what this step releases goes when it is durable.
        first = max(progress.loaded, progress.last) + 1
        end = min(ring.end(progress.last), LAST)
        if first > end:
            return False
        progress.loaded = end
        here = self.spilled.get(stream, {})
        found = [here.pop(sequence) for sequence in sorted(here) if sequence <= end]
        for event in found:
            ring.put(event)
        loaded = len(found)
        if progress.spilled > len(found) + len(here):
            limit = ring.bytes + self.room
            for event in self.state.spilled(stream, first, end):
                # Rows of events that came when the ring reached them already are not spilled ones.
                if ring.get(event.sequence) is None:
                    ring.put(event)
                    loaded += 1
                    if ring.bytes > limit:
                        progress.loaded = event.sequence
                        break
        progress.spilled -= loaded
        return bool(loaded)

    def has_beyond(self, stream: str, progress: Progress, sequence: int) -> bool:
        """Whether an event waits beyond what is loaded."""
        if sequence in self.spilled.get(stream, {}):
            return True
        found = self.state.spilled(stream, sequence, sequence) if progress.spilled else ()
        return next(iter(found), None) is not None

    def lowest_beyond(self, stream: str, progress: Progress) -> list[Event]:
        """The first of the events beyond the ring, of those in rows and of this step's own."""
        here = self.spilled.get(stream, {})
        found = [here[min(here)]] if here else []
        if progress.spilled > len(here):
            first = max(progress.loaded, progress.last) + 1
            rows = self.state.spilled(stream, first, LAST)
            found += islice((e for e in rows if (stream, e.sequence) not in self.gone), 1)
        return [min(found, key=lambda event: event.sequence)]

    def due(self, stream: str, progress: Progress, now: int) -> None:
        """Give a gap up: go on with the first event that waits."""
        add = self.ordering.step
        ring = progress.ring = progress.ring or self.ordering.ring()
        first = progress.last + add
        if progress.spilled:
            self.load(stream, progress, ring)
        waits = ring.slots.values() or self.lowest_beyond(stream, progress)
        lowest = min(waits, key=lambda event: event.sequence)
        head = lowest.sequence
        if self.impossible(head, progress):
            # And so is all that waits above it.
            self.drop_impossible(stream, progress)
            return
        begins = self.ordering.open_after is not None and self.ordering.is_new(progress)
        if head > first:
            gap = Gap(stream, first, head - add, progress.since, (head - first) // add)
            if begins:
                progress.begin_behind(gap.last, add)
            else:
                self.result.skipped.append(gap)
                progress.add_skipped(gap.first, gap.last)
            progress.last = gap.last
            if begins:
                self.drop_impossible(stream, progress)
        self.reopen(lowest, progress)
        self.drain(stream, progress)


def _first_arrival(events: Iterable[Event], since: int) -> int:
    """When the first of them arrived (ms); `since` if one arrived by then, as none did before.

    Most that wait arrived together: then a look at one of them is enough, however many there are.
    """
    found = LAST
    for event in events:
        if event.arrived <= since:
            return event.arrived
        if event.arrived < found:
            found = event.arrived
    return found
