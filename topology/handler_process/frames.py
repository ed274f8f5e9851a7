"""What a worker and the process of a handler tell each other: frames of JSON and raw messages."""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any

import orjson

from topology.engine.state.rows import decode_message, encode_message
from topology.model.change_json import OPTIONS, ROW_OPTIONS, as_text
from topology.model.changes import Delete, Emit, Upsert
from topology.model.event import Event, Record

LENGTH = Struct("!I")
"""In front of each frame: its bytes."""
LARGEST = 1 << 30
"""Bytes of a frame."""


def framed(body: bytes) -> bytes:
    """A frame with its length."""
    return LENGTH.pack(len(body)) + body


def encode_job(number: int, events: Sequence[Event], states: Mapping[str, Any]) -> bytes:
    """What a child is to handle: the messages as they are, and the states of their streams."""
    messages = [encode_message(event.message, event.arrived) for event in events]
    head = {"job": number, "sizes": [len(each) for each in messages], "states": states}
    line = orjson.dumps(head)
    return b"".join([LENGTH.pack(len(line)), line, *messages])


def decode_job(body: bytes) -> tuple[int, list[tuple[Record, int]], dict[str, Any]]:
    """(number, each message with when it arrived, states)."""
    (size,) = LENGTH.unpack_from(body)
    at = LENGTH.size + size
    head = orjson.loads(body[LENGTH.size : at])
    messages = []
    for length in head["sizes"]:
        messages.append(decode_message(body[at : at + length]))
        at += length
    return head["job"], messages, head["states"]


def encode_effects(events: Sequence[Event], items: Sequence[Sequence[Any]]) -> bytes:
    """What a handler has yielded for each event, as JSON. It is checked already."""
    said = [
        [_said(event, item) for item in each] for event, each in zip(events, items, strict=True)
    ]
    return orjson.dumps(said, as_text, ROW_OPTIONS)


def effects_of(events: Sequence[Event], said: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The same, as the handler had yielded it."""
    return [[_item(event, item) for item in each] for event, each in zip(events, said, strict=True)]


def _said(event: Event, item: Any) -> list[Any]:
    if isinstance(item, Upsert):
        return ["upsert", item.table, item.key, item.values]
    if isinstance(item, Delete):
        return ["delete", item.table, item.key]
    key, value = item.key, item.value
    if value is not None and not isinstance(value, bytes):
        value = orjson.dumps(value, option=OPTIONS)
    own = key is not None and key is event.message.key
    return [
        "emit",
        item.topic,
        own or _text(key),
        isinstance(key, bytes),
        _text(value),
        [(name, _text(each)) for name, each in item.headers],
    ]


def _item(event: Event, said: list[Any]) -> Upsert | Delete | Emit:
    match said:
        case ["upsert", table, columns, values]:
            return Upsert(table, columns, values)
        case ["delete", table, columns]:
            return Delete(table, columns)
        case ["emit", topic, key, raw, value, headers]:
            if key is True:
                key = event.message.key
            elif raw:
                key = _raw(key)
            made = tuple((name, _raw(each)) for name, each in headers)
            return Emit(topic, key, _raw(value), made)
    raise ValueError(f"{said!r} is no effect")


def _text(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _raw(text: Any) -> Any:
    return None if text is None else text.encode("latin-1")
