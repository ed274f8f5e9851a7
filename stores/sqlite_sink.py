"""A read store in one SQLite file.

The file is in WAL mode, so that readers and the one writer do not block each other, and synchronous
FULL, so that a batch that is committed survives a power loss: Spark's checkpoint may do so too, and
would otherwise go on behind rows that are gone. That is one sync of the disk per batch.
"""

import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from stores.reduction import Reduction, Rows, Stream
from stores.schema import Schema, TableState
from stores.sink import (
    Applied,
    Batch,
    DeclaredTable,
    OutputRecord,
    Position,
    StoreError,
    check_batch,
)
from stores.sqlite_tables import OWN_TABLES, add_column, create, delete, marks, read_schema, upsert

LAYOUT = 1
"""Of the sink's own tables; in the file's `user_version`."""
BUSY_SECONDS = 30.0
"""How long to wait for another writer."""

_LOOKED_UP = 500
"""Streams whose sequences one statement reads."""


class SqliteSink:
    """A `Sink` into the SQLite file at `path`, which is made with its folder where it is not there.

    tables: declared tables, made at once. Raises StoreError.
    """

    def __init__(self, path: Path | str, tables: Iterable[DeclaredTable] = ()) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"read store {self.path}: {error}") from error
        with self._store_errors():
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with self._store_errors():
                self._prepare(tables)
        except BaseException:
            self._connection.close()
            raise

    def apply(self, records: Iterable[OutputRecord], batch: Batch | None = None) -> Applied:
        """See `Sink.apply`."""
        with self._store_errors(), self._transaction():
            if batch is not None:
                check_batch(batch, self.last_batch(batch.query))
            reduction = Reduction(read_schema(self._connection), self, self._positions())
            reduction.fold(records)
            self._make_tables(reduction.schema)
            for name, rows in reduction.rows.items():
                table = reduction.schema.tables[name]
                reduction.applied.deletes += self._delete(table, rows)
                reduction.applied.upserts += self._upsert(table, rows)
            self._save_progress(reduction)
            self._save_positions(reduction)
            self._save_dead(reduction)
            if batch is not None:
                self._save_batch(batch, reduction.applied)
        return reduction.applied

    def last_batch(self, query: str) -> int | None:
        """See `Sink.last_batch`."""
        sql = 'SELECT number FROM _batches WHERE "query" = ?'
        with self._store_errors():
            row = self._connection.execute(sql, (query,)).fetchone()
        return None if row is None else int(row[0])

    def progress(self) -> list[Position]:
        """See `Sink.progress`."""
        with self._store_errors():
            return list(self._positions().values())

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What a reduction asks.

    def sequences(self, streams: Iterable[Stream]) -> Mapping[Stream, int]:
        """See `Stored.sequences`."""
        by_view: dict[tuple[str, str], list[str]] = defaultdict(list)
        for topic, view, stream in sorted(streams):
            by_view[topic, view].append(stream)
        sql = (
            "SELECT topic, view, stream, sequence FROM _progress "
            f"WHERE topic = ? AND view = ? AND stream IN ({marks(_LOOKED_UP)})"
        )
        found: dict[Stream, int] = {}
        for at, names in by_view.items():
            for first in range(0, len(names), _LOOKED_UP):
                some = names[first : first + _LOOKED_UP]
                some += some[-1:] * (_LOOKED_UP - len(some))
                rows = self._connection.execute(sql, (*at, *some))
                found.update(((topic, view, name), last) for topic, view, name, last in rows)
        return found

    def is_dead(self, topic: str, partition: int, offset: int) -> bool:
        """See `Stored.is_dead`."""
        sql = 'SELECT 1 FROM _dead WHERE topic = ? AND partition = ? AND "offset" = ?'
        return self._connection.execute(sql, (topic, partition, offset)).fetchone() is not None

    # The transaction, step by step.

    def _prepare(self, tables: Iterable[DeclaredTable]) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA journal_size_limit = 67108864")
        self._connection.execute("PRAGMA cache_size = -65536")
        with self._transaction():
            (layout,) = self._connection.execute("PRAGMA user_version").fetchone()
            if layout not in (0, LAYOUT):
                raise StoreError(
                    f"read store {self.path} has layout {layout}, this program writes {LAYOUT}; "
                    "use the program that made it, or another file"
                )
            if layout == 0:
                for statement in OWN_TABLES.split(";")[:-1]:
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {LAYOUT}")
            schema = read_schema(self._connection)
            for table in tables:
                schema.declare(table)
            self._make_tables(schema)

    def _positions(self) -> dict[tuple[str, int], Position]:
        sql = "SELECT * FROM _positions ORDER BY topic, partition"
        return {(row[0], row[1]): Position(*row) for row in self._connection.execute(sql)}

    def _make_tables(self, schema: Schema) -> None:
        for table, column in schema.added:
            if column is None:
                self._connection.execute(create(table))
            elif table.exists:
                self._connection.execute(add_column(table, column))

    def _delete(self, table: TableState, rows: Rows) -> int:
        """Delete rows that are to go, and those that start anew; return how many are to go."""
        keys = [key for key, change in rows.items() if change.reset or change.values is None]
        if keys:
            self._connection.executemany(delete(table), keys)
        return sum(change.values is None for change in rows.values())

    def _upsert(self, table: TableState, rows: Rows) -> int:
        """Write rows by the columns they set; return how many."""
        groups: dict[tuple[str, ...], list[tuple[Any, ...]]] = defaultdict(list)
        for key, (values, _) in rows.items():
            if values is not None:
                groups[tuple(values)].append((*key, *values.values()))
        for columns, parameters in groups.items():
            self._connection.executemany(upsert(table, columns), parameters)
        return sum(map(len, groups.values()))

    def _save_progress(self, reduction: Reduction) -> None:
        self._connection.executemany(
            "INSERT INTO _progress VALUES (?, ?, ?, ?) "
            "ON CONFLICT (topic, view, stream) DO UPDATE SET sequence = excluded.sequence",
            ((*stream, reduction.sequences[stream]) for stream in sorted(reduction.moved)),
        )

    def _save_positions(self, reduction: Reduction) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO _positions VALUES (?, ?, ?, ?, ?, ?)",
            (
                (p.topic, p.partition, p.next_offset, p.applied, p.duplicates, p.dead)
                for p in reduction.positions.values()
            ),
        )

    def _save_dead(self, reduction: Reduction) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO _dead VALUES (?, ?, ?, ?, ?)", reduction.dead
        )

    def _save_batch(self, batch: Batch, applied: Applied) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._connection.execute(
            "INSERT OR REPLACE INTO _batches VALUES (?, ?, ?, ?)",
            (batch.query, batch.number, at, applied.records),
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"read store {self.path}: {error}") from error
