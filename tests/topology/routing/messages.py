"""Messages and plug-ins for the tests of routing."""

from typing import Any

import orjson

from topology.model.event import Message, Record


def message(
    value: Any = None, headers: dict[str, bytes] | None = None, *, topic: str = "in", **place: Any
) -> Record:
    """A message; a dict becomes JSON."""
    body = orjson.dumps(value) if isinstance(value, dict) else value
    at = {"partition": 0, "offset": 0, "key": None, **place}
    return Record(topic, value=body, headers=tuple((headers or {}).items()), **at)


def by_length(found: Message) -> dict[str, Any]:
    """An introspection module that looks at the length."""
    return {"length": len(found.value or b"")}


def shout(content: bytes, found: Message) -> bytes:
    """A transformation."""
    return content.upper()
