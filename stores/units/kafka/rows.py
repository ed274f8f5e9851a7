"""The rows of the queue as JSON, and back."""

from dataclasses import asdict
from typing import Any

from stores.units.kafka.row_log import RowKey as Subject
from stores.units.queue import (
    AdministrationRecord,
    Handover,
    MovedAway,
    RowKey,
    RowValue,
    UnitMark,
    UnitMessage,
)
from stores.units.wire import FrameError, packed, unpacked

KINDS = frozenset({"unit", "redelivered", "message", "record", "moved"})
"""Subjects of the queue's rows; the owner has others of its own."""


def row_json(value: RowValue) -> Any:
    """A row's value as JSON has it."""
    if isinstance(value, int):
        return value
    found = asdict(value)
    if isinstance(value, UnitMessage):
        found["attributes"] = dict(value.attributes)
        found["content"], found["key"] = packed(value.content), packed(value.key)
    return found


def row_value(key: Subject, value: Any) -> tuple[RowKey, RowValue] | None:
    """A row of the queue from JSON; None for what is none, or cannot be read."""
    if len(key) != 2 or key[0] not in KINDS:
        return None
    try:
        match key:
            case "unit", (str(name) | int(name)):
                return ("unit", name), UnitMark(**value)
            case "redelivered", int(offset):
                return ("redelivered", offset), int(value)
            case "message", int(offset):
                content, of = unpacked(value.pop("content")), unpacked(value.pop("key", None))
                if (handover := value.pop("handover", None)) is not None:
                    handover = Handover(**handover)
                message = UnitMessage(**value, content=content, key=of, handover=handover)
                return ("message", offset), message
            case "moved", str(name):
                return ("moved", name), MovedAway(**value)
            case "record", int(number):
                offsets = tuple(value.pop("offsets"))
                return ("record", number), AdministrationRecord(**value, offsets=offsets)
    except (TypeError, ValueError, KeyError, AttributeError, FrameError):
        return None
    return None
