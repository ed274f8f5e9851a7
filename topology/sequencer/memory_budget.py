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
from collections import deque
from collections.abc import Mapping
from itertools import islice, takewhile
from sys import getrefcount, getsizeof
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import ref

from topology.model.event import Event, read_content

if TYPE_CHECKING:
    from topology.sequencer.ring import RingBuffer

EVENT = 1000
"""Bytes that a waiting event takes beside its body, which is there twice: as bytes and decoded."""
FIXED = 400
"""Those of them that have nothing to do with what is in it: the objects that it is made of, its
places in a ring and among what waits without a row."""
BYTES = 128 << 20
"""The budget, unless told otherwise."""
PORTIONS = 64
"""Whenever so small a part of the budget has come in, one event of it is marked: how likely that is
to be an event goes by its bytes. Those that are marked, and wait still, stand for the others."""
PARTS = 5_000
"""About so many objects of an event are looked at; if it has more, some of those that are together
in a list stand for the others."""
SMALLEST = 16 << 10
"""Bytes of a portion at least, however small the budget is."""
FIELDS = 30
"""A dictionary of more entries than this may be a map, whose keys are its own."""
SHARED = 8
"""References to a key that is not of one dictionary alone."""
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
        for part in (
            message.value, message.key, message.headers, event.stream, event.kind, made,
            read_content(event),
        )
    ]  # fmt: skip
    seen, size, looked = set[int](), float(FIXED), 0
    while rest and looked < 2 * PARTS:
        part, share, most = rest.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        looked += 1
        size += share * getsizeof(part)
        if isinstance(part, dict):
            # Most often its keys are shared by all events that have them.
            parts: list[Any] = list(dict.values(part))
            if len(parts) > FIELDS and getrefcount(next(iter(dict.keys(part)))) < SHARED:
                parts += dict.keys(part)
        elif gc.is_tracked(part) or isinstance(part, tuple):
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

    def ring(self, stream: str) -> "RingBuffer | None":
        """A stream's waiting events that are in memory, if there are any."""
        raise NotImplementedError


_Held = tuple[ref[Unloads], str]
_NONE: dict[str, int] = {}


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
        self._portion = self._grown = max(SMALLEST, limit // PORTIONS)
        self._marked: deque[tuple[_Held, Event, float]] = deque()
        """Events, with how many times as much as guessed they take; looked into the latest last."""
        self._fresh = 0
        """How many of them are new."""
        self._taken = self._guessed = 0.0
        """Bytes that those stand for which are marked."""

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

    def note(self, holder: Unloads, sizes: Mapping[str, int]) -> None:
        """The waiting events of streams take so many bytes of memory now; 0 where none are there.

        Streams may be in several calls, and are as the last one says.
        """
        of, held, leaving = ref(holder), self._held, self._leaving
        known, used = held.pop, self.used
        for stream, size in sizes.items():
            at = of, stream
            before = known(at, 0)
            if leaving:
                before += leaving.get(of, _NONE).pop(stream, 0)
            used += size - before
            if size:
                held[at] = size
                if size > before:
                    self._grown += size - before
                    if self._grown >= self._portion:
                        self._mark(at, size - before, size)
        self.used = used

    def keep(self) -> None:
        """Unload streams until the budget is kept, or is when their rows are written."""
        for of, streams in list(self._leaving.items()):
            unload = _gone if (holder := of()) is None else holder.unload
            gone = list(takewhile(unload, streams))
            self.used -= sum(map(streams.pop, gone))
            if not streams:
                del self._leaving[of]
        # Those that still have no rows take their memory, for as long as a handler is awaited.
        beyond, asked = -self.left, list[_Held]()
        # In one pass: where many were taken away, a dictionary takes long to find its first.
        for at, size in self._held.items():
            if beyond <= 0:
                break
            asked.append(at)
            beyond -= size
        for at in asked:
            size, (of, stream) = self._held.pop(at), at
            if (holder := of()) is not None and not holder.unload(stream):
                self._leaving.setdefault(of, {})[stream] = size
            else:
                self.used -= size

    def look(self) -> None:
        """Look into some marked events once more, and leave out those that wait no longer."""
        held, leaving = self._held, self._leaving
        marked, self._marked = self._marked, deque()
        # More than come, so that those that wait no longer do not become more and more.
        again = 2 * self._fresh + 1
        self._fresh, self._taken, self._guessed = 0, 0.0, 0.0
        for at, event, ratio in islice(marked, again, None):
            if at in held or at[1] in leaving.get(at[0], _NONE):
                self._count(at, event, ratio)
        for at, event, _ in islice(marked, again):
            if _waits(at, event):
                self._count(at, event, _ratio(event))

    def _mark(self, at: _Held, grown: int, size: int) -> None:
        """Mark some of the events of a stream that came last: `grown` of its `size` bytes."""
        marks, self._grown = divmod(self._grown, self._portion)
        holder = at[0]()
        ring = None if holder is None else holder.ring(at[1])
        if ring is not None:
            came = max(1, len(ring) * grown // size)
            for event in islice(reversed(ring.slots.values()), 0, came, max(1, -(-came // marks))):
                self._fresh += 1
                self._count(at, event, _ratio(event))

    def _count(self, at: _Held, event: Event, ratio: float) -> None:
        self._marked.append((at, event, ratio))
        # A small event stands for others, which it was as likely as.
        size = max(size_of(event), self._portion)
        self._guessed += size
        self._taken += size * ratio
        self.scale = self._taken / self._guessed


def _ratio(event: Event) -> float:
    """How many times as much as guessed an event takes."""
    guess = size_of(event)
    try:
        return min(measured(event) / guess, MOST)
    except Exception:
        # An object of a user's own that cannot be looked into: as guessed, then.
        return 1.0


def _gone(stream: str) -> bool:
    """What a holder that is there no longer says."""
    return True


def _waits(at: _Held, event: Event) -> bool:
    holder = at[0]()
    ring = None if holder is None else holder.ring(at[1])
    return ring is not None and ring.get(event.sequence) is event
