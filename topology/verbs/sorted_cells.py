"""Entries in order, kept in cells: an index, and chunks of which a change writes one.

An entry is a list that begins with two values that tell it from others, and by which all are
sorted; what follows is its own. The index is a cell too: [the next chunk's number, [[what the chunk
begins with, its number], …]].
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, MutableMapping
from typing import Any

Cells = MutableMapping[str, Any]
Entry = list[Any]
CHUNK = 32
"""Entries of a chunk at most."""


class SortedCells:
    """Entries of a stream by what they are sorted by.

    cells: the stream's. name: of the index's cell, and the beginning of the chunks' names.
    """

    __slots__ = ("_cells", "_name")

    def __init__(self, cells: Cells, name: str) -> None:
        self._cells, self._name = cells, name

    def put(self, entry: Entry) -> None:
        """Add an entry, or put it in the place of the one with the same first two values."""
        index = self._cells.setdefault(self._name, [0, []])
        chunks: list[Entry] = index[1]
        if not chunks:
            self._new(index, 0, [entry])
            return
        at = max(0, bisect_right(chunks, entry[:2], key=_key) - 1)
        chunk: list[Entry] = self._cells[self._of(chunks[at])]
        found = bisect_left(chunk, entry[:2], key=_two)
        if found < len(chunk) and chunk[found][:2] == entry[:2]:
            chunk[found] = entry
            return
        chunk.insert(found, entry)
        chunks[at][0] = chunk[0][:2]
        if len(chunk) > CHUNK:
            # What grows at its end leaves full chunks behind.
            half = CHUNK if at == len(chunks) - 1 and found == CHUNK else CHUNK // 2
            rest = chunk[half:]
            del chunk[half:]
            self._new(index, at + 1, rest)

    def remove(self, entry: Entry) -> None:
        """Take out an entry that is there."""
        chunks: list[Entry] = self._cells[self._name][1]
        at = bisect_right(chunks, entry[:2], key=_key) - 1
        chunk: list[Entry] = self._cells[self._of(chunks[at])]
        del chunk[bisect_left(chunk, entry[:2], key=_two)]
        if chunk:
            chunks[at][0] = chunk[0][:2]
        else:
            del self._cells[self._of(chunks[at])]
            del chunks[at]

    def find(self, entry: Entry) -> Entry | None:
        """The entry with the same first two values, None if there is none."""
        found = next(self.since(entry[:2]), None)
        return found if found is not None and found[:2] == entry[:2] else None

    def since(self, start: Entry) -> Iterator[Entry]:
        """The entries at or above `start`, in order. Only the last one may be changed meanwhile."""
        chunks = self._chunks
        at = max(0, bisect_right(chunks, start, key=_key) - 1)
        for number in range(at, len(chunks)):
            chunk = self._cells[self._of(chunks[number])]
            yield from chunk[bisect_left(chunk, start, key=_two) :]

    def below(self, end: Entry) -> Iterator[Entry]:
        """The entries below `end`, the highest first."""
        chunks = self._chunks
        for number in range(bisect_left(chunks, end, key=_key) - 1, -1, -1):
            chunk = self._cells[self._of(chunks[number])]
            yield from reversed(chunk[: bisect_left(chunk, end, key=_two)])

    @property
    def _chunks(self) -> list[Entry]:
        found: list[Entry] = self._cells.get(self._name, [0, []])[1]
        return found

    def _new(self, index: list[Any], at: int, chunk: list[Entry]) -> None:
        made = [chunk[0][:2], index[0]]
        index[0] += 1
        index[1].insert(at, made)
        self._cells[self._of(made)] = chunk

    def _of(self, made: Entry) -> str:
        return f"{self._name} {made[1]}"


def _key(made: Entry) -> Entry:
    first: Entry = made[0]
    return first


def _two(entry: Entry) -> Entry:
    return entry[:2]
