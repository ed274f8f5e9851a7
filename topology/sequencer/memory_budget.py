"""The memory of waiting events: a budget of one partition, over all its views and streams.

What waits for long is a row in any case. Within the budget it is in memory as well; beyond it, all
of it is rows, and the streams that were worked on longest ago have rows only, which are read when
it is their turn.

What an event takes is a guess by the length of its body, since it is made for each of them. How far
that is from the truth, a look into one of a thousand says: a body of a hundred small numbers takes
several times as much as one long text.
"""

import gc
from collections.abc import Sequence
from sys import getsizeof
from types import FunctionType, ModuleType
from typing import Any
from weakref import ref

from topology.model.event import Event

EVENT = 1000
"""Bytes that a waiting event takes beside its body, which is there twice: as bytes and decoded."""
FIXED = 400
"""Those of them that have nothing to do with what is in it: the objects that it is made of, its
places in a ring and among what waits without a row."""
BYTES = 128 << 20
"""The budget, unless told otherwise."""
SAMPLE = 1000
"""Of so many events one is looked into."""
PARTS = 100_000
"""The most objects of an event that are looked at: more than nearly all bodies have."""
MOST = 16.0
"""How many times as much as guessed an event may take: more is not the event's alone, as what its
content refers to may be there once for all."""
KEPT = 0.95
"""How much each look leaves of those before it."""


def size_of(event: Event) -> int:
    """About how many bytes of memory a waiting event takes."""
    return EVENT + 2 * len(event.message.value or b"")


def measured(event: Event) -> int:
    """How many bytes of memory an event takes; as guessed at least, if it has more than PARTS.

    Raises what objects of a user's own inspector raise that cannot be looked into.
    """
    message = event.message
    rest: list[Any] = [event.content, message.value, message.key, message.headers]
    seen, size, looked = set[int](), FIXED, 0
    while rest and looked < PARTS:
        part = rest.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        looked += 1
        size += getsizeof(part)
        if isinstance(part, dict):
            # Its keys are shared by all events that have them.
            rest += dict.values(part)
        elif gc.is_tracked(part):
            rest += (r for r in gc.get_referents(part) if not issubclass(type(r), _SHARED))
    return max(size, size_of(event)) if rest else size


_SHARED = (type, ModuleType, FunctionType)


class Unloads:
    """What holds waiting events in memory: a view's state."""

    def unload(self, stream: str) -> bool:
        """Leave a stream's waiting events to their rows; False if they have none yet."""
        raise NotImplementedError


class Budget:
    """A stream that was noted last is unloaded last.

    limit: bytes. used: bytes as `size_of` guesses them. scale: how many bytes each of these is.
    """

    def __init__(self, limit: int = BYTES) -> None:
        self.limit = limit
        self.used = 0
        self.scale = 1.0
        self._held: dict[tuple[ref[Unloads], str], int] = {}
        self._unseen = SAMPLE
        self._measured = self._guessed = 0.0
        """Bytes of the events that were looked into, the latest counting most."""

    def look(self, events: Sequence[Event]) -> None:
        """Look into one of these events, if it is time."""
        self._unseen += len(events)
        if self._unseen < SAMPLE or not events:
            return
        event, self._unseen = events[self._unseen % len(events)], 0
        guess = size_of(event)
        try:
            found = min(measured(event), MOST * guess)
        except Exception:
            # An object of a user's own that cannot be looked into: as guessed, then.
            return
        # By bytes, not by events: what is rare may be most of the memory.
        self._measured = KEPT * self._measured + found
        self._guessed = KEPT * self._guessed + guess
        self.scale = self._measured / self._guessed

    @property
    def memory(self) -> int:
        """The bytes that are used."""
        return int(self.used * self.scale)

    @property
    def left(self) -> int:
        """The bytes that are not used, as `size_of` guesses; negative where it is overdrawn."""
        return int(self.limit / self.scale) - self.used

    @property
    def spent(self) -> bool:
        """Whether there is no room for more."""
        return self.left <= 0

    def note(self, holder: Unloads, stream: str, size: int) -> None:
        """A stream's waiting events take `size` bytes of memory now; 0 if none are there."""
        at = ref(holder), stream
        self.used += size - self._held.pop(at, 0)
        if size:
            self._held[at] = size

    def keep(self) -> None:
        """Unload streams until the budget is kept, or is when their rows are written."""
        without_rows: dict[tuple[ref[Unloads], str], int] = {}
        beyond = -self.left
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
