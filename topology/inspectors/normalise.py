"""One form for every stream id and every sequence, whatever the source calls them."""

import re
import uuid
from datetime import UTC, datetime
from typing import Any, Literal

from topology.model.errors import DeclarationError, Malformed
from topology.model.printable import printable

SequenceType = Literal["auto", "number", "timestamp", "revision"]

StreamType = Literal["auto", "text", "int", "guid"]

_HYPHENS, _DIGITS = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", r"[0-9a-f]{32}"
_GUID = re.compile(
    rf"{_HYPHENS}|\{{(?:{_HYPHENS}|{_DIGITS})\}}|urn:uuid:(?:{_HYPHENS}|{_DIGITS})",
    re.I | re.A,
)
"""A text that cannot be meant as anything else; 32 digits alone may be a hash, or a number."""
_GUID_LENGTHS = frozenset((34, 36, 38, 41, 45))
_ANY_GUID = re.compile(rf"{_GUID.pattern}|{_DIGITS}", re.I | re.A)
_INT = re.compile(r"[+-]?[0-9]{1,512}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_REVISION = re.compile(r"([0-9]{1,19})-[^\s-]+")
_BASIC = re.compile(r"(?:[0-9]{8}|[0-9]{4}W[0-9]{2,3})[Tt ][0-9]{2,6}.*")
"""A time without hyphens; a date alone is a number."""
_NEXT_DAY = re.compile(r"[0-9]{4}-?(?:[0-9]{2}-?[0-9]{2}|W[0-9]{2}(?:-?[0-9])?)[^0-9]24")
"""24:00, which Python takes for 00:00 of the next day from 3.14 on."""
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
STREAM_LETTERS = 512
"""Characters in a stream id; longer ones are a sign of a wrong field path."""


def checked_sequence_type(what: str, value: SequenceType) -> SequenceType:
    """The sequence type, if it is one; `what` is whose. Raises DeclarationError."""
    if value not in ("auto", "number", "timestamp", "revision"):
        raise DeclarationError(
            f"{what}(sequence_type={value!r}): use 'auto', 'number' or 'timestamp'"
        )
    return value


def stream_id(value: Any, kind: StreamType = "auto") -> str:
    """Read a stream's id as one text.

    Args:
        value: what the message has.
        kind: how to read it. `"auto"`: ints in decimal, unmistakable GUIDs (hyphens as in
            8-4-4-4-12, braces, urn:uuid:) in lower case with hyphens, any other text as it is.
            `"text"`: any text as it is. `"int"`: ints and digits, in decimal. `"guid"`: GUIDs in
            any form, 32 digits alone too.

    Raises:
        Malformed: the value cannot name a stream: null, empty, true or false, a fraction, others.
    """
    of = value.__class__
    if of is str:
        size = len(value)
        if kind == "auto":
            if size in _GUID_LENGTHS and _GUID.fullmatch(value):
                return str(uuid.UUID(value.lower()))
        elif kind == "guid":
            if not _ANY_GUID.fullmatch(value):
                raise Malformed(f"the stream {printable(value)} is no GUID")
            return str(uuid.UUID(value.lower()))
        elif kind == "int":
            if not _INT.fullmatch(value):
                raise Malformed(f"the stream {printable(value)} is no int")
            return str(int(value))
        if 0 < size <= STREAM_LETTERS:
            text: str = value
            if not text.isascii() and text != text.encode("utf-8", "replace").decode():
                raise Malformed("the stream is not Unicode text")
            if "\0" in text:
                raise Malformed("the stream has a NUL, which keys of rows end a stream with")
            return text
        if not size:
            raise Malformed("the stream is empty")
        raise Malformed(f"the stream has {size} characters; the limit is {STREAM_LETTERS}")
    if of is int:
        if kind == "guid":
            raise Malformed("the stream is an int, no GUID")
        if _LOWEST <= value <= _HIGHEST:
            return str(value)
        if value.bit_length() > 4 * STREAM_LETTERS:
            raise Malformed(f"the stream is an int of {value.bit_length()} bits")
        return stream_id(str(value), "text")
    if of is bytes:
        try:
            return stream_id(value.decode(), kind)
        except UnicodeDecodeError:
            raise Malformed("the stream is not UTF-8") from None
    if of is uuid.UUID:
        return stream_id(str(value), kind)
    if value is None:
        raise Malformed("the stream is null")
    raise Malformed(f"the stream is a {of.__name__}; it must be text, an int or a GUID")


def sequence_number(value: Any, kind: SequenceType = "auto") -> int:
    """Read a sequence: numbers as they are, timestamps as microseconds since 1970.

    Args:
        value: what the message has.
        kind: how to read it. `"auto"`: ints and numeric strings are numbers, ISO 8601 strings are
            timestamps. `"number"`: numbers only. `"timestamp"`: ISO 8601, or epoch seconds,
            milliseconds, microseconds or nanoseconds, told apart by size. `"revision"`: as
            `"auto"`, and the leading number of a text such as `12-abc`.

    Raises:
        Malformed: the value is no such sequence; the text is the reason.
    """
    if value.__class__ is int and kind != "timestamp":
        if _LOWEST <= value <= _HIGHEST:
            number: int = value
            return number
        raise Malformed("the sequence does not fit into 64 bits")
    if value is None:
        raise Malformed("the sequence is null")
    if isinstance(value, bool):
        raise Malformed(f"the sequence is {str(value).lower()}; it must be a number")
    if kind == "timestamp":
        return _timestamp(value)
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            return sequence_number(int(text))
        timed = "-" in text[1:] or _BASIC.fullmatch(text)
        if kind == "revision":
            if found := _REVISION.fullmatch(text):
                return sequence_number(int(found[1]))
            if not timed:
                raise Malformed(
                    f"the sequence {value[:80]!r} does not begin with a number: a chain of hashes "
                    "alone has no order that tells an old copy from a new event; as the sequence, "
                    "take a version, revision or time that increases along the chain"
                )
        if kind != "number" and timed:
            return _moment(text)
        raise Malformed(f"the sequence {value[:80]!r} is not a number")
    if isinstance(value, float) and value.is_integer():
        return sequence_number(int(value))
    if isinstance(value, float):
        raise Malformed(
            f"the sequence {value!r} has a fraction; if it is a time, "
            "declare the inspector with sequence_type='timestamp'"
        )
    raise Malformed(f"the sequence is a {type(value).__name__}; it must be a number")


def _timestamp(value: Any) -> int:
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            return _epoch_to_micros(int(text))
        try:
            return _epoch_to_micros(float(text))
        except ValueError:
            return _moment(text)
    if isinstance(value, int | float):
        return _epoch_to_micros(value)
    raise Malformed(f"the sequence is a {type(value).__name__}; it must be a time")


def _moment(text: str) -> int:
    try:
        if _NEXT_DAY.match(text):
            raise ValueError
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Malformed(f"the sequence {text[:80]!r} is not an ISO 8601 time") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _epoch_to_micros(value: int | float) -> int:
    size = abs(value)
    if size != size or size >= 1e20:
        raise Malformed("the sequence is a number that is not a time")
    if size < 1e11:
        return round(value * 1_000_000)
    if size < 1e14:
        return round(value * 1_000)
    return round(value) if size < 1e17 else int(value) // 1_000
