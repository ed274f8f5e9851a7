"""The memory of waiting events: a budget of one partition, over all its views and streams.

What waits for long is a row in any case. Within the budget it is in memory as well; beyond it, all
of it is rows, and the streams that were worked on longest ago have rows only, which are read when
it is their turn.

What an event takes is a guess by the length of its body, since it is made for each of them. How far
that is from the truth, a look into some of those that wait says: a body of a hundred small numbers
takes several times as much as one long text. They are looked into again and again while they wait,
as what is decoded late takes its memory then.
"""

import gc
from collections.abc import Collection, Sequence
from itertools import islice
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
PORTIONS = 64
"""Whenever so small a part of the budget has come in, the stream that it ends with is looked into:
how likely it is to be a stream goes by the bytes that wait in it."""
LOOKED = 4
"""So many of a stream's events, at each look."""
NEW = 0.03
"""What another look at a long stream counts for at least, as against those before it."""
PARTS = 5_000
"""About so many objects of an event are looked at; if it has more, some of those that are together
in a list stand for the others."""
MOST = 16.0
"""How many times as much as guessed an event may take: more is not the event's alone, as what its
content refers to may be there once for all."""


def size_of(event: Event) -> int:
    """About how many bytes of memory a waiting event takes."""
    return EVENT + 2 * len(event.message.value or b"")


def measured(event: Event) -> int:
    """About how many bytes of memory an event takes.

    Raises what objects of a user's own inspector raise that cannot be looked into.
    """
    message = event.message
    made = getattr(event, "made", None)
    rest: list[tuple[Any, float, float]] = [
        (part, 1.0, PARTS)
        for part in (message.value, message.key, message.headers, made, event.content)
    ]
    seen, size, looked = set[int](), float(FIXED), 0
    while rest and looked < 2 * PARTS:
        part, share, most = rest.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        looked += 1
        size += share * getsizeof(part)
        if isinstance(part, dict):
            # Its keys are shared by all events that have them.
            parts: Sequence[Any] = list(dict.values(part))
        elif gc.is_tracked(part):
            parts = [r for r in gc.get_referents(part) if not issubclass(type(r), _SHARED)]
        else:
            continue
        count, wide = len(parts), max(2, int(most**0.6))
        if count > wide:
            # Not the same ones of each row, or of each event.
            first = message.offset + looked
            parts = [parts[(first + at * count // wide) % count] for at in range(wide)]
            share *= count / wide
        rest += ((each, share, most / len(parts)) for each in parts)
    return max(int(size), size_of(event)) if rest else int(size)


_SHARED = (type, ModuleType, FunctionType)


class Unloads:
    """What holds waiting events in memory: a view's state."""

    def unload(self, stream: str) -> bool:
        """Leave a stream's waiting events to their rows; False if they have none yet."""
        raise NotImplementedError

    def in_memory(self, stream: str) -> Collection[Event]:
        """A stream's waiting events that are in memory, in any order."""
        raise NotImplementedError


_Held = tuple[ref[Unloads], str]


class Budget:
    """A stream that was noted last is unloaded last.

    limit: bytes. used: bytes as `size_of` guesses them. scale: how many bytes each of these is.
    """

    def __init__(self, limit: int = BYTES) -> None:
        self.limit = limit
        self.used = 0
        self.scale = 1.0
        self._held: dict[_Held, int] = {}
        self._leaving: dict[ref[Unloads], dict[str, int]] = {}
        """Those that were asked to unload, and are still to have rows."""
        self._portion = self._grown = max(EVENT, limit // PORTIONS)
        self._looked: dict[_Held, tuple[float, float]] = {}
        """What those that were looked into take, and are guessed to; the latest last."""
        self._turn = 0

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
        before = self._held.pop(at, 0)
        if self._leaving:
            before += self._leaving.get(at[0], {}).pop(stream, 0)
        self.used += size - before
        if size:
            self._held[at] = size
            if size > before:
                self._grown += size - before
                if self._grown >= self._portion:
                    self._grown %= self._portion
                    self._look(at)

    def keep(self) -> None:
        """Unload streams until the budget is kept, or is when their rows are written."""
        if self._looked:
            self._look(next(iter(self._looked)))
        for of, streams in list(self._leaving.items()):
            holder = of()
            while streams and (holder is None or holder.unload(next(iter(streams)))):
                self.used -= streams.pop(next(iter(streams)))
            if not streams:
                del self._leaving[of]
        # Those that still have no rows take their memory, for as long as a handler is awaited.
        beyond = -self.left
        while beyond > 0 and self._held:
            of, stream = next(iter(self._held))
            size = self._held.pop((of, stream))
            if (holder := of()) is not None and not holder.unload(stream):
                self._leaving.setdefault(of, {})[stream] = size
            else:
                self.used -= size
            beyond -= size

    def _look(self, at: _Held) -> None:
        """Look into a stream's waiting events, and leave out those that wait no longer."""
        self._turn += 1
        self._looked[at] = self._found(at, *self._looked.pop(at, (0.0, 0.0)))
        taken = guessed = 0.0
        for each, (found, guess) in list(self._looked.items()):
            size = self._held.get(each) or self._leaving.get(each[0], {}).get(each[1])
            if size is None or not guess:
                del self._looked[each]
                continue
            # A small stream stands for others, which it was as likely as.
            size = max(size, self._portion)
            guessed += size
            taken += size * found / guess
        if guessed:
            self.scale = taken / guessed

    def _found(self, at: _Held, found: float, guessed: float) -> tuple[float, float]:
        """What events of a stream take and are guessed to, some more of them looked into."""
        holder = at[0]()
        events: Collection[Event] = () if holder is None else holder.in_memory(at[1])
        kept = 1 - max(NEW, min(1.0, LOOKED / max(1, len(events))))
        # By bytes, not by events: what is rare may be most of the memory.
        found, guessed = kept * found, kept * guessed
        apart = max(1, len(events) // LOOKED)
        for event in islice(events, self._turn * 7919 % apart, None, apart):
            guess = size_of(event)
            guessed += guess
            try:
                found += min(measured(event), MOST * guess)
            except Exception:
                # An object of a user's own that cannot be looked into: as guessed, then.
                found += guess
        return found, guessed
