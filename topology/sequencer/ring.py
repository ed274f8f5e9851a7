"""The buffer of one (view, stream): a ring whose slot is the sequence mod the size."""

from collections.abc import Iterator

from topology.model.event import Event
from topology.sequencer.memory_budget import EVENT, size_of


class RingBuffer:
    """Holds events that wait for their predecessors; only filled slots take memory.

    size: slots, more of them once it has grown. step: the distance of neighbouring sequences. With
    size 16 and 42 processed, 43 is expected at slot 11, and 45 waits at slot 13. bytes: of memory
    that its events take, about.
    """

    __slots__ = ("bytes", "size", "slots", "step")

    def __init__(
        self, size: int, step: int = 1, slots: dict[int, Event] | None = None, taken: int = 0
    ) -> None:
        self.size = size
        self.step = step
        self.slots: dict[int, Event] = {} if slots is None else slots
        self.bytes = taken

    def slot(self, sequence: int) -> int:
        """The slot that `sequence` belongs to."""
        return sequence // self.step % self.size

    def reaches(self, last: int, sequence: int) -> bool:
        """Whether `sequence` fits into the ring while `last` is the last processed one."""
        return sequence - last <= self.size * self.step

    def admits(self, last: int, sequence: int) -> bool:
        """Whether there is a place for `sequence`, which does not wait yet."""
        return self.reaches(last, sequence)

    def grow(self, last: int, sequence: int) -> None:
        """Have a place for `sequence`: twice the slots, or as many as it takes."""
        self.size = max(2 * self.size, (sequence - last) // self.step)
        self.slots = {self.slot(event.sequence): event for event in self.slots.values()}

    def end(self, last: int) -> int:
        """The highest sequence that waits here rather than beyond the ring."""
        return last + self.size * self.step

    def find(self, last: int, sequence: int) -> Event | None:
        """The event that waits here under `sequence`, or None."""
        step, size = self.step, self.size
        return self.slots.get(sequence // step % size) if sequence - last <= size * step else None

    def get(self, sequence: int) -> Event | None:
        """The event that waits at the slot of `sequence`, or None."""
        return self.slots.get(self.slot(sequence))

    def put(self, event: Event) -> None:
        # Its size as `size_of` says; a call less for each event that waits.
        self.slots[event.sequence // self.step % self.size] = event
        self.bytes += EVENT + 2 * len(event.message.value or b"")

    def pop(self, sequence: int) -> Event | None:
        event = self.slots.pop(self.slot(sequence), None)
        if event is not None:
            self.bytes -= size_of(event)
        return event

    def copy(self) -> "RingBuffer":
        return RingBuffer(self.size, self.step, self.slots.copy(), self.bytes)

    def __len__(self) -> int:
        return len(self.slots)

    def __iter__(self) -> Iterator[Event]:
        """The waiting events in sequence."""
        return iter(sorted(self.slots.values(), key=lambda event: event.sequence))
