"""Links: the next event is the lowest that waits, once its predecessor is behind."""

from collections.abc import Callable
from dataclasses import dataclass, field

from topology.model.event import Event
from topology.sequencer.progress import Progress, State, may_be_lost, was_skipped
from topology.sequencer.sparse import SparseOrdering, SparseRun
from topology.sequencer.step import Gap
from topology.sequencer.timers import Timers


class ChainOrdering(SparseOrdering):
    """Sequences grow along the chain, so no event can come between one and its predecessor."""

    __slots__ = ()

    def is_next(self, event: Event, last: int) -> bool:
        """Whether an event follows `last`: its predecessor is behind, or it is a chain's first."""
        raise NotImplementedError

    def may_follow(self, progress: Progress, event: Event) -> bool:
        """Whether an event is the next one, or begins a stream anew that was closed."""
        if self.is_next(event, progress.last):
            return True
        return progress.closed is not None and self.is_next(event, self.first)

    def behind(self, event: Event) -> int:
        """Up to where a gap in front of an event is given up."""
        return event.sequence - 1

    def run(self, state: State, timers: Timers) -> "ChainRun":
        return ChainRun(self, state, timers)

    def has_next(self, progress: Progress) -> bool:
        ring = progress.ring
        if not ring:
            return False
        head = ring.slots[min(ring.slots)]
        return self.may_begin(progress, head) and self.may_follow(progress, head)

    def before(self, event: Event, last: int) -> int:
        return last if self.is_next(event, last) else self.behind(event)


@dataclass(frozen=True, slots=True)
class LinkedOrdering(ChainOrdering):
    """previous: the sequence of an event's predecessor, None for the first of a chain."""

    previous: Callable[[Event], int | None] = field(kw_only=True)

    def is_next(self, event: Event, last: int) -> bool:
        previous = self.previous(event)
        if previous is None:
            return last in (self.first, event.sequence - 1)
        return previous <= last

    def behind(self, event: Event) -> int:
        previous = self.previous(event)
        return event.sequence - 1 if previous is None else previous


class ChainRun(SparseRun):
    """The lowest event that waits is the next, or else something is missing in front of it."""

    ordering: ChainOrdering

    def place(self, event: Event, progress: int | Progress) -> None:
        result, sequence, stream = self.result, event.sequence, event.stream
        last = progress if isinstance(progress, int) else progress.last
        if sequence <= last:
            if was_skipped(progress, sequence) or may_be_lost(progress, event):
                progress = self.writable(stream, progress)
                progress.strike_skipped(sequence, 1)
                result.late.append(event)
                self.keep(stream, progress)
            else:
                result.duplicates += 1
            return
        if self.shut(event, progress):
            return
        progress = self.writable(stream, progress)
        may_be = self.may_be_next(event, progress)
        ring = progress.ring
        if ring is None:
            ring = progress.ring = self.ordering.ring()
        lowest = min(ring.slots) if ring else None
        if may_be and self.lets_go(progress, event) and (lowest is None or sequence < lowest):
            since = progress.since
            begins = self.ordering.open_after is not None and self.ordering.is_new(progress)
            self.advance(event, progress)
            moved = self.drain(stream, progress)
            if moved and self.ordering.learn:
                result.filled.append(max(0, event.arrived - since))
            elif begins and not moved and progress.waiting:
                # As in `contiguous`.
                self.watch(stream, progress)
        elif (waits := self.waiting(progress, ring, event)) is not None:
            self.duplicate(event, waits)
        else:
            self.wait(event, progress, ring)
        self.keep(stream, progress)

    def lets_go(self, progress: Progress, event: Event) -> bool:
        if progress.suspended or self.stays_closed(progress, event):
            return False
        return self.ordering.may_follow(progress, event)

    def due(self, stream: str, progress: Progress, now: int) -> None:
        """Give up what is missing before the lowest event that waits."""
        ring = progress.ring
        assert ring
        head = ring.slots[min(ring.slots)]
        if not self.ordering.is_next(head, progress.last):
            # How many are missing nobody can say; one at least.
            last = self.ordering.before(head, progress.last)
            gap = Gap(stream, progress.last + 1, last, progress.since, 1)
            if self.ordering.open_after is None or not self.ordering.is_new(progress):
                self.result.skipped.append(gap)
                progress.add_skipped(gap.first, gap.last)
            else:
                progress.begin_behind(gap.last, 1)
            progress.last = last
        self.reopen(head, progress)
        self.drain(stream, progress)
