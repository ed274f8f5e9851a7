"""Routing keys as values: what a key may be, how it reads as text and as a number."""

import math
import re
from typing import Any

from topology.model.errors import Malformed
from topology.model.large import MESSAGE_BYTES
from topology.model.printable import is_unicode, printable

LONGEST = 4096
"""Characters that a routing key may have."""
MOST_VALUES = 1000
"""Values that one routing key of a message may have."""

Keys = dict[str, Any]
"""Name → text, number or truth value, or a list of these; a key that is not there has no entry."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?")
_PLAIN = frozenset((str, int, float, bool))


def key_text(value: Any) -> str:
    """How one value of a key is looked up in a table: `true` and `false`, numbers as written."""
    if value.__class__ is str:
        text: str = value
        return text
    if value.__class__ is bool:
        return "true" if value else "false"
    return str(value if value.__class__ in _PLAIN else _plain(value))


def key_number(value: Any) -> int | float | None:
    """One value of a key as a number; None if it is none, or not finite."""
    if value.__class__ is str:
        found = _NUMBER.fullmatch(value)
        if found is None:
            return None
        value = int(value) if found[1] is None and found[2] is None else float(value)
    elif value.__class__ is bool:
        return None
    return value if math.isfinite(value) else None


def checked_value(name: str, value: Any) -> Any:
    """A key's value as rules take it; None if there is none. Raises Malformed."""
    kind = value.__class__
    if kind is str:
        return value if len(value) <= LONGEST and is_unicode(value) else _refuse(name, value)
    if kind in _PLAIN:
        # A trail is told as JSON, which has no larger numbers.
        return value if kind is not int or -(2**63) <= value < 2**64 else _refuse(name, value)
    if value is None:
        return None
    if isinstance(value, bytes):
        try:
            return checked_value(name, value.decode())
        except UnicodeDecodeError:
            raise Malformed(f"the routing key {name!r} is not UTF-8") from None
    if isinstance(value, list | tuple):
        return _several(name, value)
    if (plain := _plain(value)).__class__ in _PLAIN:  # a subclass that a function gave
        return checked_value(name, plain)
    return _refuse(name, value)


def checked_content(value: bytes | None) -> bytes:
    """A message's value, if a module may read it. Raises Malformed."""
    if value is None:
        raise Malformed("the value is null")
    if len(value) > MESSAGE_BYTES:
        raise Malformed(f"the value has {len(value)} bytes; the limit is {MESSAGE_BYTES}")
    return value


def collected(every: frozenset[str], found: dict[str, list[Any]]) -> Keys:
    """Keys out of all that was found: of those in `every` all values, of others the first."""
    keys: Keys = {}
    for name, values in found.items():
        if values:
            keys[name] = checked_value(name, values if name in every else values[0])
    return keys


def _plain(value: Any) -> Any:
    """The text or number that a member of an enum, or of another subclass, stands for."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else value


def _several(name: str, values: list[Any] | tuple[Any, ...]) -> list[Any] | None:
    if len(values) > MOST_VALUES:
        raise Malformed(
            f"the routing key {name!r} has {len(values)} values; the limit is {MOST_VALUES}"
        )
    kept = []
    for value in values:
        if isinstance(value, list | tuple):
            raise Malformed(f"the routing key {name!r} is a list of lists; name a value in it")
        if (one := checked_value(name, value)) is not None:
            kept.append(one)
    return kept or None


def _refuse(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if not is_unicode(value):
            raise Malformed(f"the routing key {name!r} has unpaired surrogates")
        raise Malformed(
            f"the routing key {name!r} has {len(value)} characters; the limit is {LONGEST}"
        )
    if isinstance(value, int):
        raise Malformed(f"the routing key {name!r} is a number of more than 64 bits")
    kind = "an object" if isinstance(value, dict) else f"of type {printable(type(value).__name__)}"
    raise Malformed(f"the routing key {name!r} is {kind}; it must be text, a number or a list")
