"""Control records as bytes, for the log by which the processes of a router agree."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, get_args

import orjson

from topology.model.errors import DeclarationError
from topology.model.printable import is_unicode, printable
from topology.routing.agreement import ControlRecord
from topology.routing.broadcasts import Listening
from topology.routing.formats import Endpoint

SIZE = 256 << 10
"""Bytes of a control record."""
MOST_STALE = 10_000
"""Keymaps that a record names."""
_KINDS: Mapping[str, Callable[..., ControlRecord]] = {
    each.__name__.lower(): each for each in get_args(ControlRecord)
}
_NAMES = {kind: {each.name for each in fields(make)} for kind, make in _KINDS.items()}  # type: ignore[arg-type]


def encode_control(record: ControlRecord) -> bytes:
    """Write a control record.

    Args:
        record: it.

    Returns:
        JSON, which names its kind.
    """
    said = {each.name: getattr(record, each.name) for each in fields(record)}
    return orjson.dumps({"kind": type(record).__name__.lower(), **said}, default=sorted)


def decode_control(value: bytes | None) -> ControlRecord:
    """Read a control record; what another version has in it besides is passed over.

    Args:
        value: as `encode_control` wrote it, or anybody else.

    Raises:
        ValueError: it is none.
    """
    if value is None or len(value) > SIZE:
        raise ValueError(f"it has {0 if value is None else len(value)} bytes, of {SIZE} at most")
    try:
        found = orjson.loads(value)
        kind = found["kind"]
        given = {name: found[name] for name in found if name in _NAMES[kind]}
        for name, each in given.items():
            given[name] = _checked(kind, name, each)
        return _KINDS[kind](**given)
    except (TypeError, KeyError, AttributeError, ValueError, DeclarationError) as error:
        raise ValueError(f"{type(error).__name__}: {printable(error, 200)}") from None


def _checked(kind: str, name: str, value: Any) -> Any:
    if name == "stale":
        if not isinstance(value, list) or len(value) > MOST_STALE:
            raise TypeError(f"stale is a list of at most {MOST_STALE} names")
        return frozenset(_text(name, each) for each in value)
    if name == "without":
        if not isinstance(value, bool):
            raise TypeError("without is true or false")
        return value
    if name in ("version", "above", "every", "partition", "offset"):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
            raise TypeError(f"{name} is a number from 0")
        return value
    if name == "endpoint" and kind == "register":
        found = value.get("listening")
        names = {each.name for each in fields(Listening)}
        own = None if found is None else {each: found[each] for each in names & found.keys()}
        listening = None if own is None else Listening(**own)
        return Endpoint(value["name"], value["destination"], value.get("format"), listening)
    return None if name == "rules" and value is None else _text(name, value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > 4096 or not is_unicode(value):
        raise TypeError(f"{name} is a text of at most 4096 characters")
    return value
