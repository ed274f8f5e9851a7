"""One SQLite file as a read store's database.

The file is in WAL mode, so that readers and the one writer do not block each other, and synchronous
FULL, so that a batch that is committed survives a power loss: Spark's checkpoint may do so too, and
would otherwise go on behind rows that are gone. That is one sync of the disk per batch.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date, datetime
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any

from stores.db.sqlite_wal import set_wal
from stores.sinks.columns import Kind
from stores.sinks.decoding import Mark, Stream
from stores.sinks.errors import DataRefused, StoreError
from stores.sinks.limits import NO_LIMITS, StoreLimits
from stores.sinks.schema import TableState
from stores.sinks.sql.database import TARGET, as_they_are, listed, quoted
from stores.sinks.sql.sqlite_values import (
    BY_NUMBER,
    TYPES,
    by_number,
    kind_of_type,
    plain_text,
    yielded,
)
from topology.model.change_json import as_text
from topology.model.column_types import Digits

BUSY_SECONDS = 30.0
"""How long to wait for another writer."""

_LOOKED_UP = 500
"""Streams whose marks one statement reads."""


class SqliteDatabase:
    """A `Database` in the file at `path`, which is made with its folder where it is not there."""

    types: Mapping[Kind, str] = TYPES
    limits: StoreLimits = NO_LIMITS
    integer = "INTEGER"
    blob = "BLOB"
    table_end = " WITHOUT ROWID"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ruled: dict[str, list[str]] = {}
        """Table → the columns without a default that it may have rules for."""
        self._explained = count()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"read store {path}: {error}") from error
        with self.errors():
            self._connection = self._connect()
        try:
            with self.errors():
                set_wal(self._connection, BUSY_SECONDS)
                for pragma in (
                    "synchronous = FULL",
                    "journal_size_limit = 67108864",
                    "cache_size = -65536",
                    # A view that somebody made goes on reading the name that it was made with.
                    "legacy_alter_table = ON",
                ):
                    self._connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            self._connection.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )

    @contextmanager
    def errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.IntegrityError, sqlite3.DataError) as error:
            raise DataRefused(f"read store {self.path}: {error}") from error
        except sqlite3.Error as error:
            raise StoreError(f"read store {self.path}: {error}") from error

    @contextmanager
    def transaction(self, shadow: str | None, *, alone: bool = False) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")  # one writes, whatever it writes
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def layout(self) -> int | None:
        (number,) = self._connection.execute("PRAGMA user_version").fetchone()
        return number or None

    def set_layout(self, number: int) -> None:
        self._connection.execute(f"PRAGMA user_version = {number}")

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, parameters).fetchall()

    def run(self, sql: str) -> None:
        self._connection.execute(sql)

    def define(self, sql: str) -> None:
        try:
            self.run(sql)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            # It is about the statement: the disk, a lock and the like have codes of their own.
            raise DataRefused(f"read store {self.path}: {error}") from error

    def tables(self) -> tuple[list[TableState], list[str]]:
        tables, others = [], []
        for kind, name, sql in self.query("SELECT type, name, sql FROM sqlite_master"):
            if kind != "table":
                others.append(name)
            elif not name.startswith(("_", "sqlite_")):
                tables.append(self._table(name, "CHECK" in sql.upper()))
        return tables, others

    def _table(self, name: str, checked: bool) -> TableState:
        # Not by its table-valued function, which a table of that name would hide.
        found = self.query(f"PRAGMA table_info({quoted(name)})")
        key: dict[str, Kind] = {}
        columns: dict[str, Kind] = {}
        ruled = self._ruled[name] = list[str]()
        for _, column, sql_type, not_null, default, pk in sorted(found, key=itemgetter(5, 0)):
            kind = kind_of_type(sql_type)
            if pk:
                key[column] = str if kind is object else kind
            else:
                columns[column] = kind
                if default is None and (not_null or checked):
                    ruled.append(column)
        return TableState(name, key, columns)

    def read_marks(self, table: str, streams: Iterable[Stream]) -> dict[Stream, Mark]:
        by_view: dict[tuple[str, str], list[str]] = defaultdict(list)
        for topic, view, stream in sorted(streams):
            by_view[topic, view].append(stream)
        sql = (
            f"SELECT stream, epoch, sequence FROM {quoted(table)} "
            f"WHERE topic = ? AND view = ? AND stream IN ({_marks(_LOOKED_UP)})"
        )
        found: dict[Stream, Mark] = {}
        for at, names in by_view.items():
            for first in range(0, len(names), _LOOKED_UP):
                some = names[first : first + _LOOKED_UP]
                some += some[-1:] * (_LOOKED_UP - len(some))
                for stream, epoch, sequence in self._connection.execute(sql, (*at, *some)):
                    found[*at, stream] = epoch, sequence
        return found

    def upsert(
        self, table: str, key: Sequence[str], columns: Sequence[str], rows: list[tuple[Any, ...]]
    ) -> None:
        sets = ", ".join(f"{name} = excluded.{name}" for name in map(quoted, columns))
        kept = [column for column in self._ruled.get(table, ()) if column not in columns]
        keys = [f"?{number}" for number, _ in enumerate(key, 1)]
        values = [_marks(len(key) + len(columns)), *as_they_are(table, key, keys, kept)]
        self._each(
            f"INSERT INTO {quoted(table)} AS {TARGET} ({listed((*key, *columns, *kept))}) "
            f"VALUES ({', '.join(values)}) "
            f"ON CONFLICT ({listed(key)}) DO {f'UPDATE SET {sets}' if sets else 'NOTHING'}",
            rows,
        )

    def delete(self, table: str, key: Sequence[str], keys: list[tuple[Any, ...]]) -> None:
        where = " AND ".join(f"{quoted(name)} = ?" for name in key)
        self._each(f"DELETE FROM {quoted(table)} WHERE {where}", keys)

    def _each(self, sql: str, rows: list[tuple[Any, ...]]) -> None:
        """Run a statement for every row.

        Raises DataRefused where an expression of an index, a column, a rule or a trigger fails.
        """
        try:
            self._connection.executemany(sql, rows)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            # What is wrong whatever the values are is found by this, too. The driver must not take
            # a plan that it made before.
            self.query(f"EXPLAIN {sql} -- {next(self._explained)}", rows[0])
            raise DataRefused(f"read store {self.path}: {error}") from error

    def order_by(self, column: str, kind: Kind) -> str:
        if isinstance(kind, Digits):
            return f"{quoted(column)} COLLATE {BY_NUMBER}"
        return quoted(column) + (" COLLATE BINARY" if kind is str else "")

    @contextmanager
    def stream_rows(self, sql: str) -> Iterator[Iterable[tuple[Any, ...]]]:
        # A connection of its own, which sees one moment whatever is written meanwhile.
        with closing(self._connect()) as connection:
            connection.create_collation(BY_NUMBER, by_number)
            yield connection.execute(sql)

    def encoder(self, kind: Kind) -> Callable[[Any], Any] | None:
        if isinstance(kind, Digits):
            return plain_text
        return as_text if kind is datetime or kind is date else None

    def decoded(self, value: Any, kind: Kind) -> Any:
        return yielded(value, kind)

    def note_kinds(self, table: str, columns: Mapping[str, Kind]) -> None:
        pass  # SQLite keeps any type's name

    def swap(self, table: str, kept: str | None, new: str) -> None:
        if kept is not None:
            self.run(f"ALTER TABLE {quoted(table)} RENAME TO {quoted(kept)}")
        self.run(f"ALTER TABLE {quoted(new)} RENAME TO {quoted(table)}")

    def close(self) -> None:
        self._connection.close()


def _marks(count: int) -> str:
    """Marks of `count` parameters."""
    return ", ".join("?" * count)
