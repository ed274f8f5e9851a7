"""What a queue asks its owner to make durable, in one transaction."""

from dataclasses import dataclass
from typing import Literal

from stores.units.queue.handover import MovedAway
from stores.units.queue.message import Outcome, UnitMessage
from topology.ordered_commit.offset_ranges import OffsetRanges


@dataclass(frozen=True, slots=True)
class UnitMark:
    """What is on record about a unit as a whole.

    Attributes:
        parked: since when it is parked, in seconds since 1970; None if it is not.
        paused: since when it is paused.
        dead: since when it is dead-lettered.
        reason: why.
    """

    parked: float | None = None
    paused: float | None = None
    dead: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AdministrationRecord:
    """What somebody did by administration.

    Attributes:
        number: counts up from 1.
        at: seconds since 1970.
        action: park, redrive, pause, resume, move or delete.
        unit: the unit, None for ungrouped messages or the whole member.
        offsets: the messages, for move and delete.
        by: who.
        reason: why.
        breaks_order: whether a message of a unit was taken away before or after others that stay.
    """

    number: int
    at: float
    action: str
    unit: str | None
    offsets: tuple[int, ...]
    by: str
    reason: str
    breaks_order: bool


RowKey = tuple[Literal["unit", "redelivered", "message", "record", "moved"], str | int]
"""("unit", name), ("redelivered", offset), ("message", offset), ("record", number),
("moved", name)."""
RowValue = UnitMark | int | UnitMessage | AdministrationRecord | MovedAway
"""Of these keys: a mark, the redeliveries so far, a message that is parked, what was done, how a
unit left."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A message that leaves the queue for another topic.

    Attributes:
        message: the message.
        outcome: DEAD, MOVED, EXPIRED or REFUSED; HANDED for a unit that goes to another member.
        to: where it was moved to, as the administration said; else empty.
        reason: why.
    """

    message: UnitMessage
    outcome: Outcome
    to: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class UnitChanges:
    """What has changed since the last changes were taken; made durable in one transaction.

    Attributes:
        position: the offset to commit: what is below it is complete or in rows.
        done: what is complete, or in rows, from the position on.
        rows: what to write by key; None deletes the row.
        departures: messages to be sent elsewhere in the same transaction, in order.
        number: `UnitQueue.settled` takes it.
    """

    position: int
    done: OffsetRanges
    rows: dict[RowKey, RowValue | None]
    departures: tuple[Departure, ...]
    number: int
