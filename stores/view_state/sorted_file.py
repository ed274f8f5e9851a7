"""Rows in a file, by key: lines of JSON that tools like grep and less can read, and their index.

A line is a checksum (CRC-32 of the rest, 8 hexadecimal digits), a space and the JSON. A block is a
line with a list of up to 64 rows `[key, value]`, bytes as the characters of the same number. The
last line is the index: a list of `[first key, position]` of the blocks.
"""

import os
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from topology.model.partition_table import Row

BLOCK = 64
"""Rows of a block; half to twice as many where rows came or went."""
BLOCK_BYTES = 64 << 10
KEPT = 64
"""Blocks that are kept in memory."""

Pair = tuple[bytes, bytes]


class Damaged(ValueError):
    """A line whose checksum is wrong."""


def encode_line(content: Any) -> bytes:
    """Write a line: a checksum, and the content as JSON."""
    text = orjson.dumps(content)
    return b"%08x %b\n" % (zlib.crc32(text), text)


def decode_line(line: bytes) -> Any:
    """The content of a line. Raises Damaged."""
    checksum, text = line[:8], line[9:-1]
    if line[-1:] != b"\n" or checksum != b"%08x" % zlib.crc32(text):
        raise Damaged(f"a line of {len(line)} bytes has another checksum")
    return orjson.loads(text)


def encode_row(row: Row) -> tuple[str, str | None]:
    """Write a row as texts, a character per byte."""
    key, value = row
    return key.decode("latin-1"), None if value is None else value.decode("latin-1")


def decode_row(row: list[Any]) -> Row:
    """Read a row back."""
    key, value = row
    return key.encode("latin-1"), None if value is None else value.encode("latin-1")


class SortedFile:
    """A file of rows that does not change. index: the position of its last line."""

    def __init__(self, path: Path, index: int) -> None:
        self._file = path.open("rb")
        try:
            self._file.seek(index)
            found = decode_line(self._file.read())
        except BaseException:
            self._file.close()
            raise
        self._firsts = [first.encode("latin-1") for first, _ in found]
        self._positions = [*(position for _, position in found), index]
        self._blocks: dict[int, dict[bytes, bytes]] = {}

    def get(self, key: bytes) -> bytes | None:
        at = bisect_right(self._firsts, key) - 1
        return None if at < 0 else self._block(at).get(key)

    def scan(self, first: bytes, end: bytes) -> Iterator[Pair]:
        at = max(bisect_right(self._firsts, first) - 1, 0)
        for number in range(at, bisect_left(self._firsts, end)):
            for key, value in self._block(number).items():
                if first <= key < end:
                    yield key, value

    def _line(self, number: int) -> bytes:
        start, end = self._positions[number : number + 2]
        self._file.seek(start)
        return self._file.read(end - start)

    def _block(self, number: int) -> dict[bytes, bytes]:
        found = self._blocks.pop(number, None)
        if found is None:
            found = dict(map(decode_row, decode_line(self._line(number))))  # type: ignore[arg-type]
            if len(self._blocks) >= KEPT:
                del self._blocks[next(iter(self._blocks))]
        self._blocks[number] = found  # at the end, as the one used last
        return found

    def merged(self, changes: list[Row]) -> Iterator[tuple[bytes, bytes]]:
        """(first key, line) of the blocks with `changes`, sorted by key, applied.

        A block without a change is passed on as it is.
        """
        if not self._firsts:
            yield from blocks([row for row in changes if row[1] is not None])
        at = 0
        left: dict[bytes, bytes | None] = {}
        for number, first in enumerate(self._firsts):
            last = number + 1 == len(self._firsts)
            end = len(changes) if last else bisect_left(changes, (self._firsts[number + 1],))
            if at == end and not left:
                yield first, self._line(number)
                continue
            rows = {**left, **dict(map(decode_row, decode_line(self._line(number))))}
            rows.update(changes[at:end])
            at, left = end, {}
            kept = [(key, rows[key]) for key in sorted(rows) if rows[key] is not None]
            if len(kept) < BLOCK // 2 and not last:
                left = dict(kept)
            else:
                yield from blocks(kept)

    def close(self) -> None:
        self._file.close()


def blocks(rows: list[Row]) -> Iterator[tuple[bytes, bytes]]:
    """(first key, line) of sorted rows, none of them deleted."""
    part: list[Row] = []
    size = 0
    for row in rows:
        part.append(row)
        size += len(row[1] or b"")
        if len(part) >= BLOCK or size >= BLOCK_BYTES:
            yield part[0][0], encode_line(list(map(encode_row, part)))
            part, size = [], 0
    if part:
        yield part[0][0], encode_line(list(map(encode_row, part)))


def write_sorted(path: Path, lines: Iterator[tuple[bytes, bytes]]) -> int:
    """Write a sorted file to the disk. Returns the position of its index."""
    index: list[tuple[str, int]] = []
    position = 0
    with path.open("wb") as file:
        for first, line in lines:
            index.append((first.decode("latin-1"), position))
            position += file.write(line)
        file.write(encode_line(index))
        file.flush()
        os.fsync(file.fileno())
    return position
