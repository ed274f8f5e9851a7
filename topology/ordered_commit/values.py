"""What goes in and out of the ordering manager: open events, grants, actions, counts."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Key = tuple[str, str | None]
"""(where, which): a table or topic and a row's key or stream; None is all that is there."""

WAITING, RUNNING, FINISHED, COMMITTING, DONE = range(5)
"""The states of an open event: not begun (again), in work, staged, in a unit, durable."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The keys that an event reads and writes.

    An event that writes a key conflicts with each other one that reads or writes it.

    Args:
        reads: keys, each (where, which), such as ("orders", "42"); (where, None) is all of them.
        writes: keys, likewise.
    """

    reads: frozenset[Key] = frozenset()
    writes: frozenset[Key] = frozenset()

    @classmethod
    def of(cls, writes: Iterable[Key], reads: Iterable[Key] = ()) -> "Touched":
        """The keys written, and those that are only read."""
        return cls(frozenset(reads), frozenset(writes))

    def checked(self) -> "Touched":
        """The same, as sets of keys. Raises ValueError or TypeError where they are no keys."""
        found = Touched.of(self.writes, self.reads)
        for key in (*found.writes, *found.reads):
            if not isinstance(key, tuple) or len(key) != 2:
                raise ValueError(f"{key!r} is no key; give (where, which), as in ('orders', '42')")
        return found


class OpenEvent:
    """An event that has arrived and is not durably done. Everything in it is for reading only.

    offset: in its partition. stream: None for a message without a key. kind: as learned touches
    know it. size: bytes of the message. touches: declared ones, None if none are. arrived: when
    (s). alone: not for a batch. rollbacks: of its own attempts since it was last settled, cascades
    left out. failures: failed attempts since then.
    """

    __slots__ = (
        "ahead",
        "alone",
        "arrived",
        "deadline",
        "end",
        "failures",
        "grant",
        "held_by",
        "holds",
        "kind",
        "lane",
        "newer",
        "offered",
        "offset",
        "older",
        "queue",
        "rollbacks",
        "size",
        "state",
        "stream",
        "touches",
    )

    def __init__(
        self,
        offset: int,
        stream: str | None,
        kind: str,
        size: int,
        arrived: float,
        touches: Touched | None = None,
    ) -> None:
        self.offset = offset
        self.end = offset + 1
        self.stream = stream
        self.kind = kind
        self.size = size
        self.arrived = arrived
        self.touches = touches
        self.state = WAITING
        self.grant: Grant | None = None
        self.rollbacks = 0
        self.failures = 0
        self.deadline = math.inf
        self.offered = False
        self.held_by: OpenEvent | None = None
        self.holds: list[OpenEvent] = []
        self.ahead = False
        self.alone = False
        self.lane: Any = None
        self.queue: Any = None
        self.older: OpenEvent | None = None
        self.newer: OpenEvent | None = None

    def __repr__(self) -> str:
        return f"OpenEvent({self.offset}, {self.stream!r})"


class Grant:
    """The right to one attempt at one event, or at a batch of them.

    number: grows with every grant; effects under an old number are dropped. events: what is to be
    handled, in order. settle: the handler is not called; the error policy decides about the event,
    since it was rolled back as often as the rules allow. hurried: a later event waits for this
    one. started: when (s).
    """

    __slots__ = ("deadline", "events", "hurried", "number", "settle", "size", "started", "touched")

    def __init__(
        self, number: int, events: tuple[OpenEvent, ...], started: float, settle: bool = False
    ) -> None:
        self.number = number
        self.events = events
        self.started = started
        self.settle = settle
        self.hurried = False
        self.size = 0
        self.touched: Touched | None = None
        self.deadline = math.inf

    @property
    def offset(self) -> int:
        """The offset of its first event."""
        return self.events[0].offset

    def __repr__(self) -> str:
        return f"Grant({self.number}, {[event.offset for event in self.events]})"


@dataclass(frozen=True, slots=True)
class Actions:
    """What the runtime has to do about attempts.

    hurry: running ones that later ones wait for: set `event.hurry`. roll_back: drop what they
    staged, and call their compensations, in this order, newest first. cancel: those of `roll_back`
    that still run: stop them if that is possible, and tell `ended` when they have ended.
    """

    hurry: tuple[Grant, ...] = ()
    roll_back: tuple[Grant, ...] = ()
    cancel: tuple[Grant, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.hurry or self.roll_back)


@dataclass(slots=True)
class CommitCounts:
    """What happened since the start, in events unless it says otherwise.

    arrived. left_out: arrived again though done. finished, failed: attempts. retried: failures
    that were tried again without the error policy. rolled_back: attempts, cascades included.
    cascaded: those of them that had read what another one had staged. timed_out: over the time
    limit. unsettled: given to the error policy after the last rollback. committed. ahead: those of
    them that were committed before an older one. old: results under an old grant, dropped.
    paused: times that intake paused. lost: offsets not done that retention has eaten.
    compensated, compensation_failures: calls of compensations.
    """

    arrived: int = 0
    left_out: int = 0
    finished: int = 0
    failed: int = 0
    retried: int = 0
    rolled_back: int = 0
    cascaded: int = 0
    timed_out: int = 0
    unsettled: int = 0
    committed: int = 0
    ahead: int = 0
    old: int = 0
    paused: int = 0
    lost: int = 0
    compensated: int = 0
    compensation_failures: int = 0
