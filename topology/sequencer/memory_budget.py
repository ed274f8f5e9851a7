"""The memory of waiting events: a budget of one partition, over all its views and streams.

What waits for long is a row in any case. Within the budget it is in memory as well; beyond it, all
of it is rows, and the streams that were worked on longest ago have rows only, which are read when
it is their turn.
"""

from weakref import ref

from topology.model.event import Event

EVENT = 1500
"""Bytes that a waiting event takes beside its body, which is there twice: as bytes and decoded."""
BYTES = 128 << 20
"""The budget, unless told otherwise."""


def size_of(event: Event) -> int:
    """About how many bytes of memory a waiting event takes."""
    return EVENT + 2 * len(event.message.value or b"")


class Unloads:
    """What holds waiting events in memory: a view's state."""

    def unload(self, stream: str) -> bool:
        """Leave a stream's waiting events to their rows; False if they have none yet."""
        raise NotImplementedError


class Budget:
    """limit, used: bytes. A stream that was noted last is unloaded last."""

    def __init__(self, limit: int = BYTES) -> None:
        self.limit = limit
        self.used = 0
        self._held: dict[tuple[ref[Unloads], str], int] = {}

    @property
    def spent(self) -> bool:
        """Whether there is no room for more."""
        return self.used >= self.limit

    def note(self, holder: Unloads, stream: str, size: int) -> None:
        """A stream's waiting events take `size` bytes of memory now; 0 if none are there."""
        at = ref(holder), stream
        self.used += size - self._held.pop(at, 0)
        if size:
            self._held[at] = size

    def keep(self) -> None:
        """Unload streams until the budget is kept, or is when their rows are written."""
        without_rows: dict[tuple[ref[Unloads], str], int] = {}
        beyond = self.used - self.limit
        while beyond > 0 and self._held:
            held, stream = at = next(iter(self._held))
            size = self._held.pop(at)
            if (holder := held()) is not None and not holder.unload(stream):
                without_rows[at] = size
            else:
                self.used -= size
            beyond -= size
        if without_rows:
            self._held = without_rows | self._held
