"""The rows of one stream, in every view, as cells of a state store.

Spark keeps a value and a map for each stream. Each look at them is a round trip out of the Python
worker, so what most streams need is one value: all rows of all views, as long as they are short.
What does not fit is a cell of the map each, so that a stream that waits does not write all that
waits again with each event that comes.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Protocol

from topology.model.partition_table import Row

INLINE = 2048
"""Bytes of rows, keys included, that one value holds."""

_HEAD = struct.Struct(">qi?")
"""The timer that is set (ms, 0 for none), the input partition (-1 where unknown), more in cells."""
_SIZES = struct.Struct(">HI")
_KEY_LIMIT = 0xFFFF


class Value(Protocol):
    """The stream's one value."""

    def get(self) -> bytes | None: ...
    def set(self, value: bytes) -> None: ...
    def clear(self) -> None: ...


class Cells(Protocol):
    """The stream's map."""

    def items(self) -> Iterable[tuple[bytes, bytes]]: ...
    def put(self, key: bytes, value: bytes) -> None: ...
    def remove(self, key: bytes) -> None: ...


class StreamCells:
    """All rows of one stream while it is worked on; `save` writes those that changed.

    timer: when Spark is to call for the stream again (ms), 0 for never. partition: of the stream's
    input, where views of a keyed source have to write to the same one; -1 where nothing says.
    """

    def __init__(self, value: Value, cells: Cells) -> None:
        self._value, self._cells = value, cells
        self.rows: dict[bytes, bytes] = {}
        self.timer, self.partition = 0, -1
        more = False
        stored = value.get()
        if stored is not None:
            self.timer, self.partition, more = _HEAD.unpack_from(stored)
            self.rows.update(_rows(stored))
        self._inline = sum(len(key) + len(row) for key, row in self.rows.items())
        self._outside: set[bytes] = set()
        self._kept: set[bytes] = set()
        if more:
            for key, row in cells.items():
                self.rows[key] = row
                self._outside.add(key)
                self._kept.add(key)
        self._stored = stored
        self._changed: set[bytes] = set()

    def view(self, name: str) -> "ViewCells":
        """The rows of one view."""
        return ViewCells(self, name.encode() + b"\0")

    def write(self, key: bytes, row: bytes | None) -> None:
        """Write one row; None deletes it."""
        before = self.rows.get(key)
        if before == row:
            return
        if key not in self._outside and before is not None:
            self._inline -= len(key) + len(before)
        if row is None:
            del self.rows[key]
        else:
            self.rows[key] = row
            if key not in self._outside:
                if self._inline + len(key) + len(row) > INLINE or len(key) > _KEY_LIMIT:
                    self._outside.add(key)
                else:
                    self._inline += len(key) + len(row)
        self._changed.add(key)

    def save(self) -> None:
        """Write what changed."""
        outside = self._outside
        for key in self._changed & outside:
            row = self.rows.get(key)
            if row is None:
                outside.discard(key)
                # One that came and went meanwhile was never kept.
                if key in self._kept:
                    self._kept.discard(key)
                    self._cells.remove(key)
            else:
                self._kept.add(key)
                self._cells.put(key, row)
        self._changed = set()
        value = self._packed() if self.rows or self.timer else None
        if value == self._stored:
            return
        self._stored = value
        if value is None:
            self._value.clear()
        else:
            self._value.set(value)

    def _packed(self) -> bytes:
        parts = [_HEAD.pack(self.timer, self.partition, bool(self._outside))]
        for key, row in self.rows.items():
            if key not in self._outside:
                parts += (_SIZES.pack(len(key), len(row)), key, row)
        return b"".join(parts)


class ViewCells:
    """The rows of one view of a stream; a `PartitionTable` to the engine."""

    def __init__(self, stream: StreamCells, prefix: bytes) -> None:
        self._stream, self._prefix = stream, prefix

    def get(self, key: bytes) -> bytes | None:
        return self._stream.rows.get(self._prefix + key)

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        prefix, rows = self._prefix, self._stream.rows
        at, stop, size = prefix + first, prefix + end, len(prefix)
        for key in sorted(key for key in rows if at <= key < stop):
            yield key[size:], rows[key]

    def write(self, rows: Iterable[Row], offset: int | None = None) -> None:
        for key, row in dict(rows).items():
            self._stream.write(self._prefix + key, row)


def _rows(value: bytes) -> Iterator[tuple[bytes, bytes]]:
    at, end = _HEAD.size, len(value)
    while at < end:
        key, row = _SIZES.unpack_from(value, at)
        at += _SIZES.size
        yield value[at : at + key], value[at + key : at + key + row]
        at += key + row
