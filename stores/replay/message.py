"""A message as the replay log keeps it, and the fields that users declare."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any

Headers = tuple[tuple[str, bytes], ...]
"""Pairs of a name and a value, in order; a name may be there several times."""
Value = str | int | float
"""What a metadata field may hold; a field that a message lacks is not there."""

LONGEST = 500
"""Characters of a text that are kept of a stream or of a metadata field."""
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class FieldKind(Enum):
    """What a metadata field holds."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"


@dataclass(slots=True)
class CapturedMessage:
    """One published message; it is not changed. Frozen, it would take four times as long to make.

    Attributes:
        topic: where it was captured.
        partition: there; -1 of what is captured before it is published.
        offset: there; its id then.
        value: the content; None deletes the key, where topics are compacted.
        time: the record's, in milliseconds since 1970.
        key: the record key.
        headers: pairs of a name and a value.
        site: where it was published first.
        origin: of a message that another site forwarded, its id there; else "".
        stream: its stream, where it names one.
        sequence: its sequence in that stream.
        metadata: declared field → its value.
        id: its place in the log, from 1; ids ascend in the order of commits. 0: not in a log yet.
        captured: when, by the log's database, in milliseconds since 1970.
        size: bytes of the content, also where the content was not asked for.
    """

    topic: str
    partition: int
    offset: int
    value: bytes | None
    time: int = 0
    key: bytes | None = None
    headers: Headers = ()
    site: str = ""
    origin: str = ""
    stream: str | None = None
    sequence: int | None = None
    metadata: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
    id: int = 0
    captured: int = 0
    size: int = 0

    @property
    def position(self) -> str:
        """Where it was published first, as `site/topic/partition/offset`."""
        return self.origin or f"{self.site}/{self.topic}/{self.partition}/{self.offset}"


def kept_text(text: str | None) -> str | None:
    """A text as databases keep it: as long as an index takes, without NUL and half characters."""
    if text is None or (text.isascii() and len(text) <= LONGEST and "\0" not in text):
        return text
    return text[:LONGEST].replace("\0", "\ufffd").encode(errors="replace").decode()


def kept_integer(number: int | None) -> int | None:
    """A number that fits in 64 bits, else None."""
    return number if number is not None and _SMALLEST <= number <= _LARGEST else None


def kept_value(kind: FieldKind, value: Any) -> Value | None:
    """A field's value as its column keeps it; None where it is of another kind.

    Args:
        kind: of the field.
        value: as it was found.
    """
    if value is None:
        return None
    if kind is FieldKind.TEXT:
        return kept_text(str(value))
    if value.__class__ is int and kind is FieldKind.INTEGER:
        return kept_integer(value)
    if value.__class__ is bool or (value.__class__ is str and "_" in value):
        return None
    try:
        number = float(value) if kind is FieldKind.NUMBER else int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if isinstance(number, int):
        return kept_integer(number) if isinstance(value, str | bytes) or number == value else None
    return number if number - number == 0 else None  # neither infinite nor NaN
