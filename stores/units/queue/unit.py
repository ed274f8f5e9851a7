"""A unit in memory: what waits, what a session holds, and since when."""

from collections import deque
from collections.abc import Iterable, MutableSequence

from stores.units.queue.changes import UnitMark
from stores.units.queue.message import UnitMessage

LONG = 32
"""Messages from which on a unit's waiting line is a deque: shorter, a list takes less memory."""

UnitKey = str | int
"""The name of a unit, or the offset of an ungrouped message, which is a unit of its own."""


class Unit:
    """What the queue knows of a unit.

    waiting: in order, without what is held. held: delivery number → message, in order.
    session: who holds messages, or completed some that are not settled. unsettled: the number of
    the changes in which its last completion is, 0 if all are durable. departed: the same of what
    left it otherwise: it expired, was moved, deleted or dead-lettered. open_at: when a redelivery
    delay of its head ends. ready: the offset of its head while that may be delivered, else -1.
    """

    __slots__ = (
        "departed",
        "held",
        "key",
        "mark",
        "open_at",
        "ready",
        "session",
        "since",
        "unsettled",
        "waiting",
    )

    def __init__(self, key: UnitKey, now: float) -> None:
        self.key = key
        self.waiting: MutableSequence[UnitMessage] = []
        self.held: dict[int, UnitMessage] | None = None
        self.session: str | None = None
        self.unsettled = self.departed = 0
        self.open_at = 0.0
        self.since = now
        self.ready = -1
        self.mark: UnitMark | None = None

    def append(self, message: UnitMessage) -> None:
        """A message joins the end."""
        if not self.waiting:
            self.waiting = [message]  # exactly as large as most ever are
            return
        if len(self.waiting) == LONG:
            self.waiting = deque(self.waiting)
        self.waiting.append(message)

    def take(self, number: int) -> UnitMessage:
        """The head goes to the session, as delivery `number`."""
        message = self.waiting[0]
        del self.waiting[0]
        if self.held is None:
            self.held = {}
        self.held[number] = message
        return message

    def put_back(self, messages: Iterable[UnitMessage]) -> None:
        """What was held returns before all that waits, in its order."""
        for message in sorted(messages, key=lambda each: each.offset, reverse=True):
            self.waiting.insert(0, message)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to know of it; an ungrouped message has no followers."""
        if self.waiting or self.held or self.mark:
            return False
        return not self.unsettled or self.key.__class__ is int
