"""A message of a unit as a Kafka record: content is the value, everything else is headers."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stores.units.errors import UnitError
from stores.units.naming import checked_name

UNIT = "unit"
SORT = "unit-sort"
NOT_BEFORE = "unit-not-before"
EXPIRES = "unit-expires"
OWN = frozenset({UNIT, SORT, NOT_BEFORE, EXPIRES})
"""Headers that the library writes; an application's attributes have other names."""


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

    def headers(self, unit: str | None) -> Headers:
        """The record's headers.

        Args:
            unit: the unit's name, None for an ungrouped message.

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
                if not math.isfinite(number):
                    raise ValueError(f"{name} is {number}: it must be a finite number")
                headers.append((name, repr(number).encode()))
        return headers + [(name, text.encode()) for name, text in self.attributes.items()]


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """What a record says besides its content. damaged: headers that could not be read."""

    unit: str | None
    sort: float
    not_before: float | None
    expires: float | None
    attributes: Mapping[str, str]
    damaged: tuple[str, ...] = ()


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
                found = float(texts[name][:40])
            except ValueError:
                found = math.nan
            if math.isfinite(found):
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
    )


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
