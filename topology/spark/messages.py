"""Messages of a batch of Arrow, as the engine takes them; too large ones as damaged.

A worker takes no message that is too large for Sequitur's own topics, and neither does Spark: what
is malformed there is malformed here, and a rebuild leaves out what the live view has never had.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from topology.model.event import Record, damaged
from topology.model.large import ESCAPED, MESSAGE_BYTES, too_large

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""What a batch has; the timestamp in ms. Rows that are no messages have nulls."""


def messages_of(batch: pa.RecordBatch) -> Iterator[Record]:
    """The messages of a batch, in order; of a row that is none, one without anything."""
    names = ("topic", "partition", "offset", "key", "value")
    columns = [batch.column(name).to_pylist() for name in names]
    columns.append(_headers(batch.column("headers")))
    columns.append(batch.column("timestamp").to_pylist())
    found = map(Record, *columns)
    return map(_checked, found) if _may_be_large(batch) else found


def _checked(message: Record) -> Record:
    reason = too_large(message)
    return message if reason is None else damaged(message, reason)


def _may_be_large(batch: pa.RecordBatch) -> bool:
    """Whether one of the messages may be too large; it is quickly seen that none is."""
    value, key = (_longest(batch.column(name)) for name in ("value", "key"))
    headers: int = batch.column("headers").nbytes
    return value + ESCAPED * (key + headers) > MESSAGE_BYTES


def _longest(column: Any) -> int:
    return pc.max(pc.binary_length(column)).as_py() or 0


def _headers(column: pa.ListArray) -> list[Any]:
    """The headers of each row; far faster than row by row, as most of the time would go here."""
    flat = column.flatten()
    names, values = flat.field(0).to_pylist(), flat.field(1).to_pylist()
    pairs = list(zip(names, values, strict=True))
    sizes = column.value_lengths().to_pylist()
    found: list[Any] = []
    at = 0
    for size in sizes:
        if not size:
            found.append(())
        else:
            found.append(tuple(pairs[at : at + size]))
            at += size
    return found
