"""Values that only grow: an event waits a settled time, then goes with all that is lower."""

from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Self

from topology.model.event import Event
from topology.sequencer.ordering import LAST
from topology.sequencer.progress import Progress, State
from topology.sequencer.sparse import SparseOrdering, SparseRun
from topology.sequencer.timers import Timers


@dataclass(frozen=True, slots=True)
class MonotonicOrdering(SparseOrdering):
    """settle: how long an event waits for lower ones (ms). appended: whether sequences are offsets
    of the input, so that what is not above the last one is always a copy, however old."""

    settle: int = 0
    appended: bool = False
    settles: ClassVar[bool] = True

    def run(self, state: State, timers: Timers) -> "MonotonicRun":
        return MonotonicRun(self, state, timers)

    def patience(self, progress: Progress) -> int | None:
        return self.settle

    def at_once(self, **more: Any) -> Self:
        return SparseOrdering.at_once(self, settle=0, **more)

    def has_next(self, progress: Progress) -> bool:
        return False

    def before(self, event: Event, last: int) -> int:
        return last


class MonotonicRun(SparseRun):
    """There are no gaps: what comes after a higher one was released is late."""

    ordering: MonotonicOrdering
    top = -LAST
    """The highest sequence that may be released now."""

    def place(self, event: Event, progress: int | Progress) -> None:
        stream, sequence = event.stream, event.sequence
        last = progress if isinstance(progress, int) else progress.last
        if sequence <= last:
            known = isinstance(progress, Progress) and sequence in progress.recent
            if known or (self.ordering.appended and not event.was_dead):
                self.result.duplicates += 1
                return
            progress = self.writable(stream, progress)
            progress.remember(sequence)
            self.result.late.append(event)
            self.keep(stream, progress)
            return
        if self.shut(event, progress):
            return
        progress = self.writable(stream, progress)
        ring = progress.ring
        if ring is None:
            ring = progress.ring = self.ordering.ring()
        if (waits := self.waiting(progress, ring, event)) is not None:
            self.duplicate(event, waits)
        else:
            self.wait(event, progress, ring)
        self.keep(stream, progress)

    def lets_go(self, progress: Progress, event: Event) -> bool:
        return event.sequence <= self.top

    def advance(self, event: Event, progress: Progress) -> None:
        if progress.retry is not None:
            # Since the retry was due, it had to be settled again.
            self.result.retried[event] = progress.retry.attempts
        super().advance(event, progress)
        if not self.ordering.appended:
            progress.remember(event.sequence)

    def go_on(self, stream: str, progress: Progress) -> None:
        # What is to go is settled anew, when it is known what arrived.
        self.watch(stream, progress)

    def due(self, stream: str, progress: Progress, now: int) -> None:
        """Release all up to the highest event that has waited long enough."""
        ring = progress.ring
        assert ring is not None
        beyond = self.rows_beyond(stream, progress) if progress.spilled else ()
        waits = [(event.sequence, event.arrived) for event in chain(ring, beyond)]
        settled = now - self.ordering.settle
        self.top = max((one for one, arrived in waits if arrived <= settled), default=-LAST)
        self.run_down(stream, progress)
        left = [arrived for one, arrived in waits if one > progress.last]
        if left:
            progress.since = min(left)
            if stream not in self.result.unfinished:
                self.watch(stream, progress)

    def fire(self, now: int) -> None:
        super().fire(now)
        # They are still due, for the next step that is told what has arrived.
        for stream in self.result.unfinished:
            progress = self.current(stream)
            assert isinstance(progress, Progress)
            self.watch(stream, progress)
