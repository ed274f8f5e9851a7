"""What a record of a side topic says: the headers that stand behind the message's own, its body."""

from typing import Any

import orjson

from topology.model.event import Message


def last_header(record: Message, name: str) -> bytes | None:
    """Return the last header of that name, None if there is none: the message's own come first."""
    return next((value for each, value in reversed(record.headers) if each == name), None)


def body_of(record: Message) -> dict[str, Any]:
    """The JSON object that a record is, empty for what somebody else wrote there."""
    try:
        found = orjson.loads(record.value or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
