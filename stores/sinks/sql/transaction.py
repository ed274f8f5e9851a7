"""One transaction of a SQL read store: the tables as it finds them, and the steps of a batch."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from stores.sinks.columns import Kind, sql_type
from stores.sinks.dead_limit import DeadLimit
from stores.sinks.records import (
    Applied,
    Batch,
    DeadRecord,
    Position,
    check_batch,
    is_behind,
)
from stores.sinks.reduction import Reduction
from stores.sinks.row_changes import TableChanges
from stores.sinks.schema import Schema, TableState
from stores.sinks.shadows import shadow_name
from stores.sinks.sink import DeclaredTable
from stores.sinks.sql import own_tables, shadow_tables
from stores.sinks.sql.catalog import add_column, create, read_schema
from stores.sinks.sql.database import Database
from stores.sinks.sql.dead_rows import SqlDeadRecords
from stores.sinks.sql.progress import SqlProgress


class SqlTransaction:
    """What is read and written in one transaction; made by `begin`.

    schema: the tables as the transaction finds them. progress: how far they are. last: the number
    of the last batch of the query that is applied.
    """

    def __init__(self, database: Database, shadow: str | None) -> None:
        self.progress = SqlProgress(database, shadow)
        self.dead = SqlDeadRecords(database, shadow)
        self._database, self._shadow = database, shadow
        self.last: int | None = None

    @classmethod
    @contextmanager
    def begin(
        cls, database: Database, shadow: str | None, *, alone: bool = False
    ) -> Iterator[Self]:
        """Begin one; commit it at the end, or undo it. See `Database.transaction`."""
        with database.errors(), database.transaction(shadow, alone=alone):
            yield cls(database, shadow)

    def prepare(self, tables: Iterable[DeclaredTable]) -> None:
        """Make the sink's own tables and the declared ones, where they are not there."""
        own_tables.make_all(self._database)
        shadow = self._shadow
        if shadow is not None and shadow not in shadow_tables.written(self._database):
            own_tables.make_own(self._database, shadow)
            shadow_tables.add(self._database, shadow, "")
        schema = self.schema()
        for table in tables:
            schema.declare(table)
        self.make_tables(schema)

    def schema(self) -> Schema:
        """The tables, by the names that views give them."""
        return read_schema(self._database, self._shadow)

    def expect(self, batch: Batch, seen: int | None) -> None:
        """See `check_batch`."""
        self.last = self.progress.last_batch(batch.query)
        check_batch(batch, self.last, seen)

    # The steps of a batch, in order.

    def make_tables(self, schema: Schema) -> None:
        """Make the tables and columns that a schema adds to those of the store.

        Raises DataRefused where there cannot be such ones.
        """
        database = self._database
        for table, column in schema.added:
            name = shadow_name(table.name, self._shadow)
            if column is None:
                database.define(create(name, table, database.types))
                database.note_kinds(name, {**table.key, **table.columns})
                if self._shadow is not None:
                    shadow_tables.add(database, self._shadow, table.name)
            elif table.exists:
                kind = table.columns[column]
                database.define(add_column(name, column, sql_type(kind, database.types)))
                database.note_kinds(name, {column: kind})

    def write_rows(self, reduction: Reduction) -> None:
        """Write the row changes of all tables, and count them."""
        for name, changes in reduction.rows.items():
            table = reduction.schema.tables[name]
            reduction.applied.deletes += self.delete(table, changes)
            reduction.applied.upserts += self.upsert(table, changes)

    def delete(self, table: TableState, changes: TableChanges) -> int:
        """Delete rows that are to go, and those that start anew; return how many are to go."""
        gone = [key for key, values in changes.values.items() if values is None]
        keys = [*gone, *changes.reset]
        if keys:
            keys = self._encoded(table.key.values(), keys)
            self._database.delete(shadow_name(table.name, self._shadow), list(table.key), keys)
        return len(gone)

    def upsert(self, table: TableState, changes: TableChanges) -> int:
        """Write rows by the columns they set; return how many."""
        groups: dict[tuple[str, ...], list[tuple[Any, ...]]] = defaultdict(list)
        for key, values in changes.values.items():
            if values is not None:
                groups[tuple(values)].append((*key, *values.values()))
        name, keys = shadow_name(table.name, self._shadow), list(table.key)
        for columns, parameters in groups.items():
            kinds = (*table.key.values(), *map(table.columns.__getitem__, columns))
            self._database.upsert(name, keys, columns, self._encoded(kinds, parameters))
        return sum(map(len, groups.values()))

    def save_streams(self, reduction: Reduction) -> None:
        """Note the sequences that streams are at."""
        self.progress.save_streams(reduction)

    def save_positions(self, positions: Iterable[Position]) -> None:
        """Note how far partitions are applied."""
        self.progress.save_positions(positions)

    def save_dead(self, dead: Iterable[DeadRecord], limit: DeadLimit) -> None:
        """Keep the records that could not be applied."""
        self.dead.save(dead, limit)

    def save_batch(self, batch: Batch | None, applied: Applied) -> None:
        """Note which batch it was, if it has a number, and nobody else went on from it."""
        if batch is not None and not is_behind(batch, self.last, applied):
            self.progress.save_batch(batch, applied.records)
            self.last = batch.number

    def _encoded(self, kinds: Iterable[Kind], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Rows as the database's driver takes them."""
        encoders = list(map(self._database.encoder, kinds))
        if not any(encoders):
            return rows
        return [
            tuple(
                value if encode is None or value is None else encode(value)
                for encode, value in zip(encoders, row, strict=True)
            )
            for row in rows
        ]
