"""A message of a unit as a Kafka record: content is the value, everything else is headers."""

import math
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

from stores.units.errors import UnitError
from stores.units.naming import checked_name
from stores.units.queue import Handover

UNIT = "unit"
SORT = "unit-sort"
NOT_BEFORE = "unit-not-before"
EXPIRES = "unit-expires"
ROUTE = "unit-route"
"""The epoch of the route by which a message was sent."""
HANDOVER = "unit-handover"
"""What a record says of a unit that moves: see `Handover`."""
OWN = frozenset({UNIT, SORT, NOT_BEFORE, EXPIRES, ROUTE, HANDOVER})
"""Headers that the library writes; an application's attributes have other names."""
LARGEST = sys.float_info.max
"""Number of a header, above and below zero."""
DIGITS = 400
"""Characters of such a number, of whoever sent it; a longer one cannot be read."""

NOTHING = Handover("handed", 0, 0)
"""Of a record that is no message, and says nothing of a move."""

Headers = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message to be sent.

    Args:
        value: its content.
        sort: a smaller number goes first, between units and ungrouped messages.
        not_before: seconds since 1970 before which it is not delivered, and nothing that follows it
            in its unit.
        expires: seconds since 1970 after which it is complete without being delivered.
        attributes: texts that filters of consumers compare.
    """

    value: bytes
    sort: float = 0
    not_before: float | None = None
    expires: float | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    def headers(self, unit: str | None, epoch: int = 0) -> Headers:
        """The record's headers.

        Args:
            unit: the unit's name, None for an ungrouped message.
            epoch: of the route by which it is sent, 0 for routing by hash.

        Returns:
            Names and values.

        Raises:
            ValueError: it cannot be sent; the text says why.
        """
        if mine := OWN & self.attributes.keys():
            raise ValueError(f"attribute {min(mine)!r} is a header of units; name it otherwise")
        headers: Headers = [] if unit is None else [(UNIT, unit.encode())]
        for name, number in (
            (SORT, self.sort or None),
            (NOT_BEFORE, self.not_before),
            (EXPIRES, self.expires),
        ):
            if number is not None:
                if not -LARGEST <= number <= LARGEST:  # nor is a NaN
                    raise ValueError(f"{name} must be a number of at most {LARGEST:g}")
                headers.append((name, repr(float(number)).encode()))
        if epoch:
            headers.append((ROUTE, b"%d" % epoch))
        return headers + [(name, text.encode()) for name, text in self.attributes.items()]


def outgoing(message: OutgoingMessage | bytes) -> OutgoingMessage:
    """The message, or that of its content."""
    return message if isinstance(message, OutgoingMessage) else OutgoingMessage(message)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """What a record says besides its content.

    damaged: headers that could not be read. epoch: of its route, 0 for none. handover: what it says
    of a unit that moves, and for which subscriber (empty: for all).
    """

    unit: str | None
    sort: float
    not_before: float | None
    expires: float | None
    attributes: Mapping[str, str]
    damaged: tuple[str, ...] = ()
    epoch: int = 0
    handover: tuple[Handover, str] | None = None


def read_headers(headers: Iterable[tuple[str, bytes | None]]) -> StoredMessage:
    """The headers of a record, whoever has sent it. A header that cannot be read is left out."""
    texts: dict[str, str] = {}
    damaged: list[str] = []
    for name, value in headers:
        try:
            texts[name] = (value or b"").decode()
        except UnicodeDecodeError:
            damaged.append(name)
    numbers: dict[str, float | None] = {}
    for name in (SORT, NOT_BEFORE, EXPIRES):
        numbers[name] = None
        if name in texts:
            try:
                found = float(texts[name][:DIGITS])
            except ValueError:
                found = math.nan
            if math.isfinite(found) and len(texts[name]) <= DIGITS:
                numbers[name] = found
            else:
                damaged.append(name)
    unit = texts.get(UNIT)
    if unit is not None:
        try:
            checked_name(unit)
        except UnitError:
            damaged.append(UNIT)
            unit = None
    return StoredMessage(
        unit,
        numbers[SORT] or 0,
        numbers[NOT_BEFORE],
        numbers[EXPIRES],
        {name: text for name, text in texts.items() if name not in OWN},
        tuple(damaged),
        int(epoch) if (epoch := texts.get(ROUTE, "")[:18]).isdecimal() and epoch.isascii() else 0,
        _handover(texts[HANDOVER]) if HANDOVER in texts and unit is not None else None,
    )


def handover_headers(unit: str, handover: Handover, group: str = "") -> Headers:
    """The headers of a record by which a unit goes to another member.

    Args:
        unit: its name.
        handover: what the record says.
        group: the subscriber that it is for; empty: for all.
    """
    found = orjson.dumps([handover.kind, handover.epoch, handover.other, group])
    return [(UNIT, unit.encode()), (HANDOVER, found)]


def _handover(text: str) -> tuple[Handover, str]:
    """What a record says of a move; one that cannot be read says nothing, and is no message."""
    with suppress(ValueError):
        match orjson.loads(text):
            case ["leaves" | "arrives" | "handed" as kind, int(epoch), int(other), str(group)]:
                return Handover(kind, epoch, other), group
    return NOTHING, ""


def key_of(unit: str | None) -> bytes | None:
    """The record's key, so that foreign tools too keep a unit together."""
    return None if unit is None else unit.encode()


def sorted_messages(messages: Iterable[OutgoingMessage], sort: Any | None) -> list[OutgoingMessage]:
    """By "time" (their not_before), by "priority" (their sort), by a function, or as they are."""
    if sort == "time":
        return sorted(messages, key=lambda each: each.not_before or 0)
    if sort == "priority":
        return sorted(messages, key=lambda each: each.sort)
    if sort is None:
        return list(messages)
    if not callable(sort):
        raise ValueError(f"sort is {sort!r}: use 'time', 'priority', or a function of a message")
    return sorted(messages, key=sort)
