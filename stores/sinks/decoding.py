"""What a record of an output topic says, field by field."""

from typing import Any

import orjson

from stores.sinks.columns import INT_MAX, INT_MIN, Refused
from topology.model.column_types import shown

Stream = tuple[str, str, str]
"""(topic, view, stream): what sequences are counted in. A view's name is its topology's own, so the
topic belongs to it."""

Mark = tuple[int, int]
"""(epoch, sequence) of a stream's last applied record. A stream that is made again from its start
has the next epoch, so marks are compared as pairs; a record without an epoch is of epoch 0."""


def decode(topic: str, value: bytes | None) -> tuple[Stream, Mark, list[Any]] | Refused:
    """(stream, mark, row changes) of a record's value, or why not."""
    if value is None:
        return Refused("the record has no value")
    try:
        record = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        return Refused(f"not JSON: {error}")
    try:
        view, stream = record["view"], record["stream"]
        sequence, changes = record["sequence"], record["changes"]
        epoch = record.get("epoch", 0)
    except (KeyError, TypeError) as error:
        return Refused(f"the record is no object with view, stream, sequence and changes ({error})")
    if view.__class__ is not str or stream.__class__ is not str:
        return Refused(f"view {shown(view)}, stream {shown(stream)}: both are texts")
    if sequence.__class__ is not int or not INT_MIN <= sequence <= INT_MAX:
        return Refused(f"sequence {shown(sequence)} is no integer of 64 bits")
    if epoch.__class__ is not int or not 0 <= epoch <= INT_MAX:
        return Refused(f"epoch {shown(epoch)} is no integer from 0 on of 64 bits")
    if changes.__class__ is not list:
        return Refused(f"changes {shown(changes)} is no list")
    return (topic, view, stream), (epoch, sequence), changes
