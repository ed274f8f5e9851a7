"""What the orders have in common whose sequences do not count: only the lowest can be next."""

from dataclasses import dataclass
from itertools import islice

from topology.model.event import Event
from topology.sequencer.ordering import LOWEST, Ordering
from topology.sequencer.progress import Progress
from topology.sequencer.ring import RingBuffer
from topology.sequencer.run import Run
from topology.sequencer.sorted_buffer import SortedBuffer

LOADED = 1 << 20
"""Bytes of a stream's waiting events that are read at a time, about; one event in any case."""


@dataclass(frozen=True, slots=True)
class SparseOrdering(Ordering):
    """Nobody can say which sequences there are between two."""

    start: int = LOWEST

    def ring(self) -> RingBuffer:
        return SortedBuffer(self.size)


class SparseRun(Run):
    """The buffer has the lowest events that wait, rows beyond it the others."""

    def lets_go(self, progress: Progress, event: Event) -> bool:
        """Whether the lowest of the events that wait may be released now."""
        raise NotImplementedError

    def wait(self, event: Event, progress: Progress, ring: RingBuffer) -> None:
        if not progress.spilled or event.sequence < progress.loaded:
            if len(ring) < ring.size:
                super().wait(event, progress, ring)
                return
            highest = ring.end(progress.last)
            if event.sequence < highest:
                evicted = ring.pop(highest)
                assert evicted is not None
                ring.put(event)
                self.result.buffered.append(event)
                event = evicted
            progress.loaded = ring.end(progress.last)
            self.beyond(event, progress, waited=event.sequence == highest)
        else:
            self.beyond(event, progress)

    def drain(self, stream: str, progress: Progress) -> bool:
        moved = self.run_down(stream, progress)
        ring = progress.ring
        if not progress.waiting:
            progress.rejected = 0
            self.timers.discard(stream)
        elif moved and ring:
            since = min(event.arrived for event in ring.slots.values())
            # What was beyond the buffer until now may be on its way back: it gets its time.
            progress.since = max(since, progress.rejected)
            self.watch(stream, progress)
        return moved

    def run_down(self, stream: str, progress: Progress) -> bool:
        """Release from the lowest on, as far as it goes and the budget reaches; whether any."""
        ring, moved = progress.ring, False
        assert ring is not None
        while progress.waiting:
            if not ring:
                self.load(stream, progress, ring)
            if not ring:
                break
            for sequence in sorted(ring.slots):
                event = ring.slots.get(sequence)
                if event is None:
                    # The stream was closed, and what waited is late.
                    break
                if not self.lets_go(progress, event):
                    return moved
                if self.spent:
                    self.result.unfinished.append(stream)
                    return moved
                ring.pop(sequence)
                self.release(event, progress)
                moved = True
        return moved

    def drop_below(self, stream: str, progress: Progress, sequence: int) -> None:
        super().drop_below(stream, progress, sequence)
        if progress.spilled and progress.ring is not None and not len(progress.ring):
            self.load(stream, progress, progress.ring)

    def load(self, stream: str, progress: Progress, ring: RingBuffer) -> None:
        """Fill the empty buffer with the lowest events beyond it."""
        here, loaded = self.spilled.get(stream, {}), 0
        for event in islice(self.rows_beyond(stream, progress), ring.size):
            ring.put(event)
            here.pop(event.sequence, None)
            loaded += 1
            if ring.bytes > min(LOADED, max(0, self.room)):
                break
        progress.loaded = ring.end(progress.last)
        progress.spilled -= loaded

    def writable(self, stream: str, progress: int | Progress) -> Progress:
        found = super().writable(stream, progress)
        if found.spilled and not found.ring:
            # Only the lowest can be next: it has to be known.
            found.ring = self.ordering.ring()
            self.load(stream, found, found.ring)
        return found
