"""A message of a destination's member, and what a session gets of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stores.units.queue.handover import Handover

NO_ATTRIBUTES: Mapping[str, str] = {}
"""Those of all messages that have none: a dictionary each would take a tenth of the memory."""


@dataclass(frozen=True, slots=True)
class UnitMessage:
    """A message as the queue of a member knows it.

    Attributes:
        offset: its place in the member's log; messages arrive by ascending offsets.
        unit: the name of its unit, None for an ungrouped message.
        sort: decides between units and ungrouped messages: the lowest goes first.
        not_before: seconds since 1970 before which it is not delivered, 0 for at once.
        expires: seconds since 1970 at which it expires if nobody holds it, None for never.
        committed: whether its send is committed; if not, it blocks what follows in its unit until
            `commit_send` or `abort_send`.
        attributes: text by name, which the filters of sessions look at.
        size: bytes, for limits.
        content: what the caller keeps with it; the queue does not look at it.
        key: that of its record, where it is not the unit's name.
        handover: what it says of a unit that moves; nobody gets such a record.
    """

    offset: int
    unit: str | None = None
    sort: float = 0.0
    not_before: float = 0.0
    expires: float | None = None
    committed: bool = True
    attributes: Mapping[str, str] = field(default_factory=lambda: NO_ATTRIBUTES)
    size: int = 0
    content: Any = None
    key: bytes | None = None
    handover: Handover | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message in the hands of a session.

    Attributes:
        number: names this delivery; another delivery of the same message has another one.
        message: the message.
        redeliveries: how often it was delivered before and rolled back.
    """

    number: int
    message: UnitMessage
    redeliveries: int


class Outcome(StrEnum):
    """How a delivery, or a message, ended; each is counted."""

    ACKNOWLEDGED = "acknowledged"
    COMMITTED = "committed"
    RECOVERED = "recovered"
    ROLLED_BACK = "rolled back"
    RETURNED = "returned"
    LOST = "lost"
    EXPIRED = "expired"
    PARKED = "parked"
    DEAD = "dead"
    MOVED = "moved"
    DELETED = "deleted"
    ABORTED = "aborted"
    REFUSED = "refused"
    HANDED = "handed over"


@dataclass(frozen=True, slots=True)
class Filter:
    """Which messages a session takes: those whose attributes have one of the values each.

    Attributes:
        values: attribute → the values that are admitted; empty admits every message.
    """

    values: tuple[tuple[str, frozenset[str]], ...] = ()

    @classmethod
    def of(cls, /, **values: str | list[str]) -> "Filter":
        """A filter from attributes and their values.

        Args:
            values: for each attribute the value, or the list of values, that it admits.
        """
        given = ((n, frozenset([v] if isinstance(v, str) else v)) for n, v in values.items())
        return cls(tuple(sorted(given, key=lambda pair: pair[0])))

    def admits(self, message: UnitMessage) -> bool:
        """Whether a session with this filter takes the message."""
        attributes = message.attributes
        return all(attributes.get(name) in admitted for name, admitted in self.values)


EVERY = Filter()
"""Admits every message."""
