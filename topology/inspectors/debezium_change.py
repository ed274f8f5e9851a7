"""A Debezium change event out of its envelope, and the row it is about."""

from typing import Any

import orjson

from topology.inspectors.decoded import decoded
from topology.model.errors import Malformed
from topology.model.event import Message

KINDS = {"c": "create", "r": "read", "u": "update", "d": "delete"}
"""`op` → kind. A read is a row of a snapshot. Others concern no row: they are unknown."""

Change = dict[str, Any]


def change_of(message: Message) -> Change | None:
    """The envelope's payload, with or without its schema; None for what is no change of a row.

    That are tombstones, truncations, logical messages, transaction boundaries, schema changes and
    heartbeats. Raises Malformed.
    """
    if message.value is None:
        return None
    change = _payload(decoded(message.value))
    if change is None:
        return None
    if not isinstance(change, dict):
        raise Malformed(
            f"the value is a JSON {type(change).__name__}; a Debezium change event is an object"
        )
    op = change.get("op")
    if op.__class__ is not str or op not in KINDS:
        return None
    if not isinstance(change.get("source"), dict):
        raise Malformed("the change event has no 'source'")
    return change


def key_values(key: bytes | None) -> list[Any]:
    """The values of a record key's columns, in the key's order. Raises Malformed.

    A key that is no JSON, as a plain string converter writes it, is one value.
    """
    if key is None:
        raise Malformed(
            "the stream is missing: the record has no key; give the table a primary key or "
            "message.key.columns, or name columns as Debezium(stream=…)"
        )
    try:
        found = _payload(orjson.loads(key))
    except (orjson.JSONDecodeError, RecursionError):
        return [key]
    if isinstance(found, dict):
        if not found:
            raise Malformed("the stream is missing: the record's key has no columns")
        return list(found.values())
    return [found if isinstance(found, str | int) else key]


def column(change: Change, name: str, what: str) -> Any:
    """A column of the row: as it is after the change, or was before it was deleted."""
    side = "before" if change["op"] == "d" else "after"
    row = change.get(side)
    if isinstance(row, dict) and name in row:
        return row[name]
    remedy = "; it needs REPLICA IDENTITY FULL in PostgreSQL" if side == "before" else ""
    raise Malformed(f"the {what} is missing: no column {name!r} in {side!r}{remedy}")


def _payload(body: Any) -> Any:
    """Kafka Connect's JSON converter writes a schema beside the payload unless told not to."""
    if isinstance(body, dict) and "payload" in body and "schema" in body:
        return body["payload"]
    return body
