"""The buffer of one (view, stream) whose sequences do not count: the lowest that wait."""

from topology.model.event import Event
from topology.sequencer.memory_budget import size_of
from topology.sequencer.ring import RingBuffer


class SortedBuffer(RingBuffer):
    """Holds up to `size` events, which are the lowest of those that wait; a slot is a sequence."""

    __slots__ = ()

    def slot(self, sequence: int) -> int:
        return sequence

    def reaches(self, last: int, sequence: int) -> bool:
        return self.admits(last, sequence)

    def admits(self, last: int, sequence: int) -> bool:
        return len(self.slots) < self.size

    def end(self, last: int) -> int:
        return max(self.slots, default=last)

    def find(self, last: int, sequence: int) -> Event | None:
        return self.slots.get(sequence)

    def put(self, event: Event) -> None:
        self.slots[event.sequence] = event
        self.bytes += size_of(event)

    def copy(self) -> "SortedBuffer":
        return SortedBuffer(self.size, self.step, self.slots.copy(), self.bytes)
