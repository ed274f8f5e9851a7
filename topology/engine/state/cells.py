"""Cells: small rows of a stream's state by key, of which only those that change are written.

A row is a JSON list: the sequence of the event that changed the cell last, its value in a list of
its own, and the value that it had at the commit before, likewise; an empty list where there was
none. Where a commit unit is not one transaction a crash may leave cells without the progress that
belongs to them. Then the sequence is above that progress, and the value before it is meant. As
progress will pass it, and what is handled again may be otherwise and leave the cell alone, the unit
that comes next corrects such a row: the row of key `TORN` says that there may be some. Where a unit
is one transaction, the value before is left out, and a cell that is gone has no row.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

import orjson

from topology.engine.state.rows import CELLS, TORN, cell_key, cell_range, split_cell_key
from topology.model.partition_table import PartitionTable, Row

CACHED = 50_000
"""Cells kept in memory per view and partition, twice."""
Kept = dict[str, bytes | None]
"""Key → a cell's value as JSON, None where there is none."""


class StoredCells:
    """All cells of a view in a partition: rows of its table, and those used last in memory.

    last_of: stream → its last processed sequence, at the last commit. atomic: whether a commit unit
    is one transaction.
    """

    def __init__(
        self, table: PartitionTable, last_of: Callable[[str], int], atomic: bool = False
    ) -> None:
        self._table, self._last_of, self.atomic = table, last_of, atomic
        self._recent: defaultdict[str, Kept] = defaultdict(dict)
        self._previous: defaultdict[str, Kept] = defaultdict(dict)
        self._count = 0

    def get(self, stream: str, key: str) -> bytes | None:
        """The value as JSON, None where there is none."""
        recent = self._recent[stream]
        if key not in recent:
            previous = self._previous.get(stream, {})
            recent[key] = previous[key] if key in previous else self._find(stream, key)
            self._count += 1
        return recent[key]

    def keys(self, stream: str) -> Iterable[str]:
        """The keys of the stream's cells, as texts sort."""
        known = {split_cell_key(key)[1] for key, _ in self._table.scan(*cell_range(stream))}
        known.update(self._previous.get(stream, ()), self._recent.get(stream, ()))
        return sorted(key for key in known if self.get(stream, key) is not None)

    def take(self, stream: str, changed: Kept, last: int) -> tuple[list[Row], list[Row]]:
        """Take over what a step has left of a stream's cells.

        Returns:
            The rows, which go before those of the stream's progress, `last`; and those that the
            next unit deletes.
        """
        rows: list[Row] = []
        gone: list[Row] = []
        for key, value in changed.items():
            before = self.get(stream, key)
            if before == value:
                continue
            self._recent[stream][key] = value
            at = cell_key(stream, key)
            if self.atomic:
                rows.append((at, None if value is None else encode_cell(last, value, None)))
                continue
            rows.append((at, encode_cell(last, value, before)))
            if value is None:
                gone.append((at, None))
        return rows, gone

    def replace(self, stream: str, cells: Kept, last: int) -> list[Row]:
        """The stream has these cells now, and no others. Returns their rows."""
        rows, gone = self.take(stream, {**dict.fromkeys(self.keys(stream)), **cells}, last)
        return rows + gone

    def forget(self, stream: str) -> list[Row]:
        """The stream has no cells any more. Returns the rows that delete them."""
        rows: list[Row] = [(key, None) for key, _ in self._table.scan(*cell_range(stream))]
        known = {*self._previous.get(stream, ()), *self._recent.get(stream, ())}
        self._previous.pop(stream, None)
        self._recent[stream] = dict.fromkeys((*known, *(split_cell_key(key)[1] for key, _ in rows)))
        rows += [(cell_key(stream, key), None) for key in known]
        return rows

    def mend(self, last_of: Callable[[str], int]) -> list[Row]:
        """Find what a crash has left ahead of its stream. Returns the rows that correct it, which
        go before all others; call it before anything else.

        last_of: as of this, but it keeps nothing in memory.
        """
        if self.atomic or self._table.get(TORN) is None:
            return []
        rows: list[Row] = []
        stream, last = "", 0
        for at, row in self._table.scan(*CELLS):
            found, key = split_cell_key(at)
            if found != stream:
                stream, last = found, last_of(found)
            if int(row[1 : row.index(b",")]) > last:
                value = self._recent[stream][key] = decode_cell(row, last)
                self._count += 1
                rows.append((at, None if value is None else encode_cell(last, value, None)))
        return [*rows, (TORN, None)]

    def age(self) -> None:
        """Keep the cache bounded; called between steps only."""
        if self._count >= CACHED:
            self._previous, self._recent, self._count = self._recent, defaultdict(dict), 0

    def _find(self, stream: str, key: str) -> bytes | None:
        row = self._table.get(cell_key(stream, key))
        if row is None:
            return None
        return decode_cell(row, self._last_of(stream))


def encode_cell(at: int, value: bytes | None, before: bytes | None) -> bytes:
    """The row of a cell. at: the sequence of the event that leaves it so."""
    return b"[%d,[%b],[%b]]" % (at, value or b"", before or b"")


def decode_cell(row: bytes, last: int) -> bytes | None:
    """The value as JSON that goes with a stream's progress, None where there is none."""
    at, value, before = orjson.loads(row)
    meant = before if at > last else value
    return orjson.dumps(meant[0]) if meant else None
