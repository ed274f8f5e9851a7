"""One SQLite file as a read store's database.

The file is in WAL mode, so that readers and the one writer do not block each other, and synchronous
FULL, so that a batch that is committed survives a power loss: Spark's checkpoint may do so too, and
would otherwise go on behind rows that are gone. That is one sync of the disk per batch.
"""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from stores.sinks.columns import JsonArray, JsonObject, Kind, Number, read
from stores.sinks.errors import StoreError
from stores.sinks.reduction import Mark, Stream
from stores.sinks.schema import NO_LIMITS, StoreLimits, TableState
from stores.sinks.sql.database import DataRefused, listed, quoted
from topology.model.column_types import Digits, as_text

BUSY_SECONDS = 30.0
"""How long to wait for another writer."""

_LOOKED_UP = 500
"""Streams whose marks one statement reads."""


class SqliteDatabase:
    """A `Database` in the file at `path`, which is made with its folder where it is not there."""

    types: Mapping[Kind, str] = {
        int: "INTEGER",
        float: "REAL",
        str: "TEXT",
        bool: "BOOLEAN",
        Number: "NUMERIC",
        # SQLite keeps as text what a type says that has TEXT in it.
        Decimal: "DECIMAL_TEXT({}, {})",
        datetime: "DATETIME_TEXT",
        date: "DATE_TEXT",
        JsonObject: "JSON_OBJECT_TEXT",
        JsonArray: "JSON_ARRAY_TEXT",
        bytes: "BYTES_BLOB",
    }
    limits: StoreLimits = NO_LIMITS
    integer = "INTEGER"
    blob = "BLOB"
    table_end = " WITHOUT ROWID"

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"read store {path}: {error}") from error
        with self.errors():
            self._connection = self._connect()
        try:
            with self.errors():
                for pragma in (
                    "journal_mode = WAL",
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

    def tables(self) -> tuple[list[TableState], list[str]]:
        tables, others = [], []
        for kind, name in self.query("SELECT type, name FROM sqlite_master"):
            if kind != "table":
                others.append(name)
            elif not name.startswith(("_", "sqlite_")):
                tables.append(self._table(name))
        return tables, others

    def _table(self, name: str) -> TableState:
        sql = "SELECT pk, name, type FROM pragma_table_info(?) ORDER BY pk, cid"
        key: dict[str, Kind] = {}
        columns: dict[str, Kind] = {}
        for pk, column, sql_type in self.query(sql, (name,)):
            kind = _kind(sql_type)
            if pk:
                key[column] = str if kind is object else kind
            else:
                columns[column] = kind
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
        self._connection.executemany(
            f"INSERT INTO {quoted(table)} ({listed((*key, *columns))}) "
            f"VALUES ({_marks(len(key) + len(columns))}) "
            f"ON CONFLICT ({listed(key)}) DO {f'UPDATE SET {sets}' if sets else 'NOTHING'}",
            rows,
        )

    def delete(self, table: str, key: Sequence[str], keys: list[tuple[Any, ...]]) -> None:
        where = " AND ".join(f"{quoted(name)} = ?" for name in key)
        self._connection.executemany(f"DELETE FROM {quoted(table)} WHERE {where}", keys)

    def order_by(self, column: str, kind: Kind) -> str:
        if isinstance(kind, Digits):
            return f"{quoted(column)} COLLATE {_BY_NUMBER}"
        return quoted(column) + (" COLLATE BINARY" if kind is str else "")

    @contextmanager
    def stream_rows(self, sql: str) -> Iterator[Iterable[tuple[Any, ...]]]:
        # A connection of its own, which sees one moment whatever is written meanwhile.
        with closing(self._connect()) as connection:
            connection.create_collation(_BY_NUMBER, _by_number)
            yield connection.execute(sql)

    def encoder(self, kind: Kind) -> Callable[[Any], Any] | None:
        if isinstance(kind, Digits):
            return _plain
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


_BY_NUMBER = "sequitur_by_number"
_DIGITS = re.compile(r"DECIMAL_TEXT\((\d+), *(\d+)\)")
_OWN: dict[str, Kind] = {
    SqliteDatabase.types[kind]: kind for kind in (datetime, date, JsonObject, JsonArray, bytes)
}


def yielded(value: Any, kind: Kind) -> Any:
    """A value that SQLite has in a column of a kind, as a handler yielded it."""
    if kind is bool:
        return bool(value)
    if isinstance(kind, Digits):
        return Decimal(value)
    if kind is datetime:
        return datetime.fromisoformat(value).astimezone(UTC)
    return date.fromisoformat(value) if kind is date else read(value, kind)


def _by_number(one: str, other: str) -> int:
    here, there = Decimal(one), Decimal(other)
    return (here > there) - (here < there)


def _plain(number: Decimal) -> str:
    return format(number, "f")


def _kind(sql_type: str) -> Kind:
    """The kind of a column by its type, as SQLite reads types: by what the name contains."""
    name = sql_type.upper()
    if name in _OWN:
        return _OWN[name]
    if digits := _DIGITS.fullmatch(name):
        return Digits(int(digits[1]), int(digits[2]))
    for part, kind in (
        *(("INT", int), ("CHAR", str), ("CLOB", str), ("TEXT", str), ("REAL", float)),
        *(("FLOA", float), ("DOUB", float), ("BOOL", bool), ("NUMERIC", Number)),
    ):
        if part in name:
            return kind
    return object


def _marks(count: int) -> str:
    """Marks of `count` parameters."""
    return ", ".join("?" * count)
