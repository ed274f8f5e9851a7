"""What a test gives a driver: refused by name where no broker or operator could give it."""

from math import isfinite
from typing import Any

import orjson

from topology.inspectors.normalise import stream_id
from topology.model.errors import Malformed
from topology.model.printable import is_unicode, printable
from topology.model.unwritable import unwritable

LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def moment(what: str, given: object) -> int:
    """A time in ms since the epoch. Raises ValueError."""
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= LATEST:
        raise ValueError(
            f"{what}={printable(repr(given))}: give milliseconds since the epoch, an int of 0 to "
            f"{LATEST}"
        )
    return given


def stamp(what: str, given: object) -> int:
    """A record's timestamp in ms; -1 where it has none. Raises ValueError."""
    whole = isinstance(given, int) and not isinstance(given, bool)
    if not whole or not -1 <= given < 2**63:  # type: ignore[operator]
        raise ValueError(
            f"{what}={printable(repr(given))}: Kafka stamps a record with milliseconds since the "
            "epoch; give an int of 64 bits, -1 for none"
        )
    return given  # type: ignore[return-value]


def seconds(what: str, given: object) -> float:
    """A number of seconds, 0 or more. Raises ValueError."""
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if not number or not isfinite(given) or not 0 <= given < 1e10:  # type: ignore[arg-type,operator]
        raise ValueError(f"{what}={printable(repr(given))}: give a number of seconds, 0 or more")
    return float(given)  # type: ignore[arg-type]


def stream(what: str, given: object) -> str:
    """A stream's id as text, of an id such as a message has it. Raises ValueError."""
    try:
        text = given if isinstance(given, str) else stream_id(given)
    except Malformed as reason:
        raise ValueError(f"{what}={printable(repr(given))}: {reason}") from None
    if not is_unicode(text):
        raise ValueError(f"{what}={printable(repr(given))}: it has surrogates; no event's id has")
    return text


def key_bytes(given: object) -> bytes | None:
    """A record's key. Raises ValueError."""
    if isinstance(given, str) and is_unicode(given):
        return given.encode()
    if given is not None and not isinstance(given, bytes):
        raise ValueError(f"key={printable(repr(given))}: give a text, bytes or None")
    return given


def value_bytes(given: Any) -> bytes | None:
    """A record's value: bytes and None as they are, else as JSON. Raises ValueError."""
    if given is None or isinstance(given, bytes):
        return given
    try:
        return orjson.dumps(given)
    except TypeError:
        told = unwritable(given, orjson.dumps)
        raise ValueError(f"the message's value: {told}; or give bytes") from None


def checked_headers(given: Any) -> tuple[tuple[str, bytes], ...]:
    """A record's headers. Raises ValueError."""
    if isinstance(given, list | tuple) and all(map(_is_header, given)):
        return tuple(given)
    raise ValueError(
        f"headers={printable(repr(given))}: give a list of (name, bytes), the name a text"
    )


def _is_header(given: Any) -> bool:
    if not isinstance(given, tuple) or len(given) != 2:
        return False
    name, value = given
    return isinstance(name, str) and is_unicode(name) and isinstance(value, bytes | None)
