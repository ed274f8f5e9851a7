"""Cells: small rows of a stream's state by key, of which only those that change are written.

A row is a JSON list: the sequence of the event that changed the cell last, its value in a list of
its own, and the value that it had at the commit before, likewise; an empty list where there was
none. Where a commit unit is not one transaction a crash may leave cells without the progress that
belongs to them. Then the sequence is above that progress, and the value before it is meant.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol

import orjson

from topology.engine.state.rows import cell_key, cell_range, split_cell_key
from topology.model.changes import check_finite
from topology.model.errors import HandlerError
from topology.model.partition_table import PartitionTable, Row
from topology.model.unwritable import unwritable

CACHED = 50_000
"""Cells kept in memory per view and partition, twice."""
KEY = 1_000
"""Letters of a cell's key, at most."""
LIMIT = 1_000_000
"""Bytes of a cell's value as JSON, at most: Kafka's own default limit is a little more."""

Kept = dict[str, bytes | None]
"""Key → a cell's value as JSON, None where there is none."""


class CellSource(Protocol):
    """The cells of a view before a step."""

    def get(self, stream: str, key: str) -> bytes | None:
        """The value as JSON, None where there is none."""
        ...

    def keys(self, stream: str) -> Iterable[str]:
        """The keys of the stream's cells, as texts sort."""
        ...


class Cells(MutableMapping[str, Any]):
    """A stream's cells, as the handler of one event has them: JSON values by key.

    A value that is taken out may be changed in place, as the stream's dictionary may. step: what
    earlier events of the step have left of the stream's cells.
    """

    def __init__(self, source: CellSource, stream: str, step: Kept) -> None:
        self._source, self._stream, self._step = source, stream, step
        self._raw: Kept = {}
        self._live: dict[str, Any] = {}
        self._gone: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        if key in self._live:
            return self._live[key]
        if key in self._gone or (raw := self._before(key)) is None:
            raise KeyError(key)
        found = self._live[key] = orjson.loads(raw)
        return found

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str) or not 0 < len(key) <= KEY:
            raise HandlerError(
                f"the key of a cell, {key!r:.100}: give a text of 1 to {KEY} letters"
            )
        self._live[key] = value
        self._gone.discard(key)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._live.pop(key, None)
        self._gone.add(key)

    def __contains__(self, key: object) -> bool:
        if key in self._live:
            return True
        return isinstance(key, str) and key not in self._gone and self._before(key) is not None

    def __iter__(self) -> Iterator[str]:
        known = {*self._source.keys(self._stream), *self._step, *self._live}
        return iter(sorted(key for key in known if key in self))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _before(self, key: str) -> bytes | None:
        """The cell as JSON before the event; the same one for as long as the event is handled."""
        if key not in self._raw:
            step = self._step
            self._raw[key] = step[key] if key in step else self._source.get(self._stream, key)
        return self._raw[key]

    def changed(self) -> Kept:
        """The cells that the event changes. Raises HandlerError for what JSON cannot hold."""
        found: Kept = {}
        for key, value in self._live.items():
            what = f"cell {key!r:.100}"
            try:
                raw = orjson.dumps(value)
            except TypeError:
                raise HandlerError(f"{what}: {unwritable(value, orjson.dumps)}") from None
            if len(raw) > LIMIT:
                raise HandlerError(f"{what} has {len(raw)} bytes; the limit is {LIMIT}")
            if b"null" in raw:
                check_finite(what, value)
            if raw != self._before(key):
                found[key] = raw
        for key in self._gone:
            if self._before(key) is not None:
                found[key] = None
        return found


class MemoryCells:
    """The cells of streams that are handled anew from their first event."""

    def __init__(self) -> None:
        self.kept: defaultdict[str, Kept] = defaultdict(dict)

    def get(self, stream: str, key: str) -> bytes | None:
        """The value as JSON, None where there is none."""
        return self.kept[stream].get(key)

    def keys(self, stream: str) -> Iterable[str]:
        """The keys of the stream's cells, as texts sort."""
        return sorted(key for key, value in self.kept[stream].items() if value is not None)

    def take(self, changed: Mapping[str, Kept]) -> None:
        """Take over what a step has left of the cells."""
        for stream, cells in changed.items():
            self.kept[stream].update(cells)


class StoredCells:
    """All cells of a view in a partition: rows of its table, and those used last in memory.

    last_of: stream → its last processed sequence, at the last commit.
    """

    def __init__(self, table: PartitionTable, last_of: Callable[[str], int]) -> None:
        self._table, self._last_of = table, last_of
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

    def age(self) -> None:
        """Keep the cache bounded; called between steps only."""
        if self._count >= CACHED:
            self._previous, self._recent, self._count = self._recent, defaultdict(dict), 0

    def _find(self, stream: str, key: str) -> bytes | None:
        row = self._table.get(cell_key(stream, key))
        return None if row is None else decode_cell(row, self._last_of(stream))


def encode_cell(at: int, value: bytes | None, before: bytes | None) -> bytes:
    """The row of a cell. at: the sequence of the event that leaves it so."""
    return b"[%d,[%b],[%b]]" % (at, value or b"", before or b"")


def decode_cell(row: bytes, last: int) -> bytes | None:
    """The value as JSON that goes with a stream's progress, None where there is none."""
    at, value, before = orjson.loads(row)
    meant = value if at <= last else before
    return orjson.dumps(meant[0]) if meant else None
