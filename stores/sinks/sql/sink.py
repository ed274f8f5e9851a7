"""A read store in a SQL database; what databases do differently is in `database`."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any, Self

from stores.sinks.columns import Kind
from stores.sinks.dead_limit import DeadCount, StoredDead, keep_from
from stores.sinks.fold_replacement import fold_replacement
from stores.sinks.reduction import FEW, NOTHING, Mark, Reduction, Stream
from stores.sinks.row_changes import TableChanges, gc_paused
from stores.sinks.schema import Schema, TableState
from stores.sinks.sink import (
    Applied,
    Batch,
    DeclaredTable,
    OnDead,
    OutputRecord,
    Position,
    StoreError,
    check_at,
    check_batch,
    checked_shadow,
)
from stores.sinks.sql import own_tables, shadow_tables
from stores.sinks.sql.database import (
    Database,
    DataRefused,
    add_column,
    create,
    listed,
    quoted,
    sql_type,
)
from stores.sinks.sql.dead_rows import SqlDeadRecords
from stores.sinks.sql.own_tables import SHADOWS, shadow_name


class SqlSink:
    """A `Sink` into a database, which it closes.

    tables: declared tables, made at once. shadow: whose tables are written, None for the live ones.
    Raises StoreError.
    """

    at_once = FEW

    def __init__(
        self, database: Database, tables: Iterable[DeclaredTable] = (), shadow: str | None = None
    ) -> None:
        self.database = database
        try:
            self.shadow = checked_shadow(shadow)
            self.keep_dead = keep_from()
            self._dead = SqlDeadRecords(database, self.shadow)
            with database.errors(), database.transaction(shadow, alone=True):
                self._prepare(tables)
        except BaseException:
            database.close()
            raise

    def apply(
        self,
        records: Iterable[OutputRecord],
        batch: Batch | None = None,
        on_dead: OnDead | None = None,
    ) -> Applied:
        """See `Sink.apply`."""
        with gc_paused():
            in_order = sorted(records, key=itemgetter(0, 1, 2))
            try:
                return self._apply(in_order, batch, on_dead)
            except DataRefused:
                if not in_order:
                    raise
                return self._apply_apart(in_order, batch, on_dead)

    def _apply_apart(
        self, records: list[OutputRecord], batch: Batch | None, on_dead: OnDead | None
    ) -> Applied:
        """Apply a batch in halves and these in halves, to find the records that are refused.

        What was applied is not lost when it ends before the batch does: it is noted by position.
        """
        total = Applied()
        middle = len(records) // 2
        for part in filter(None, (records[:middle], records[middle:])):
            try:
                done = self._apply(part, None, on_dead)
            except DataRefused as refused:
                if len(part) == 1:
                    done = self._apply(part, None, on_dead, {part[0][:3]: str(refused)})
                else:
                    done = self._apply_apart(part, None, on_dead)
            total.add(done)
        if batch is not None:
            self._apply([], batch, None)
        return total

    def _apply(
        self,
        records: list[OutputRecord],
        batch: Batch | None,
        on_dead: OnDead | None,
        refused: Mapping[tuple[str, int, int], str] = NOTHING,
    ) -> Applied:
        with self.database.errors(), self.database.transaction(self.shadow):
            if batch is not None:
                check_batch(batch, self._last_batch(batch.query))
            reduction = Reduction(self._read_schema(), self, self._positions(), refused)
            reduction.fold(records)
            self._make_tables(reduction.schema)
            self._write_rows(reduction)
            self._save_progress(reduction)
            self._save_positions(reduction)
            self._save_dead(reduction)
            if batch is not None:
                self._save_batch(batch, reduction.applied)
            if reduction.dead and on_dead is not None:
                on_dead(reduction.dead)
        return reduction.applied

    def replace_streams(self, records: Iterable[OutputRecord], at: Iterable[Position]) -> Applied:
        """See `Sink.replace_streams`."""
        in_order = sorted(records, key=itemgetter(0, 1, 2))
        with self.database.errors(), self.database.transaction(self.shadow):
            check_at(at, self._positions())
            reduction = fold_replacement(self._read_schema(), in_order)
            self._make_tables(reduction.schema)
            self._write_rows(reduction)
            self._save_progress(reduction)
        return reduction.applied

    def last_batch(self, query: str) -> int | None:
        """See `Sink.last_batch`."""
        with self.database.errors():
            return self._last_batch(query)

    def progress(self) -> list[Position]:
        """See `Sink.progress`."""
        with self.database.errors():
            return list(self._positions().values())

    def seek(self, positions: Iterable[Position]) -> None:
        """See `Sink.seek`."""
        positions = list(positions)
        with self.database.errors(), self.database.transaction(self.shadow):
            for topic in sorted({position.topic for position in positions}):
                self.database.query(
                    f"DELETE FROM {self._own('_positions')} WHERE topic = ?", [topic]
                )
            self._put_positions(positions)

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """See `Sink.rows`."""
        database, state = self.database, self._table(table)
        kinds = {**state.key, **state.columns}
        order = ", ".join(database.ordered(column, kind) for column, kind in state.key.items())
        name = quoted(shadow_name(table, self.shadow))
        sql = f"SELECT {listed(kinds)} FROM {name} ORDER BY {order}"
        with database.errors(), database.read(sql) as found:
            for values in found:
                pairs = zip(kinds.items(), values, strict=True)
                yield {c: database.value(v, kind) for (c, kind), v in pairs if v is not None}

    def count(self, table: str) -> int:
        """See `Sink.count`."""
        self._table(table)
        with self.database.errors():
            name = quoted(shadow_name(table, self.shadow))
            return int(self.database.query(f"SELECT count(*) FROM {name}")[0][0])

    def shadows(self) -> list[str]:
        """See `Sink.shadows`."""
        with self.database.errors():
            found = self.database.query(f"SELECT DISTINCT side FROM {SHADOWS} ORDER BY side")
        return [shadow for (shadow,) in found]

    def switch(self, shadow: str, topics: Iterable[str]) -> None:
        """See `Sink.switch`."""
        if self.shadow is not None:
            raise StoreError(
                f"shadow tables {self.shadow!r} are no place to switch to; use the live sink"
            )
        with self.database.errors(), self.database.transaction(None, alone=True):
            shadow_tables.switch(self.database, shadow, list(topics))

    def drop(self, shadow: str) -> None:
        """See `Sink.drop`."""
        with self.database.errors(), self.database.transaction(None, alone=True):
            shadow_tables.drop(self.database, shadow)

    def dead_counts(self) -> list[DeadCount]:
        """See `Sink.dead_counts`."""
        with self.database.errors():
            return self._dead.counts()

    def last_dead(self, limit: int) -> list[StoredDead]:
        """See `Sink.last_dead`."""
        with self.database.errors():
            return self._dead.last(limit)

    def remove_dead(
        self, topic: str | None = None, before: int | None = None, *, dry_run: bool = False
    ) -> int:
        """See `Sink.remove_dead`."""
        with self.database.errors(), self.database.transaction(self.shadow):
            return self._dead.remove(topic, before, dry_run=dry_run)

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What a reduction asks.

    def marks(self, streams: Iterable[Stream]) -> Mapping[Stream, Mark]:
        """See `StoredProgress.marks`."""
        return self.database.marks(shadow_name("_progress", self.shadow), streams)

    def is_dead(self, topic: str, partition: int, offset: int) -> bool:
        """See `StoredProgress.is_dead`."""
        return self._dead.has((topic, partition, offset))

    def forgetting(self, topic: str) -> str:
        """See `StoredProgress.forgetting`."""
        return f"DELETE FROM {self._own('_positions')} WHERE topic = '{topic}'"

    # The transaction, step by step.

    def _prepare(self, tables: Iterable[DeclaredTable]) -> None:
        own_tables.make_all(self.database)
        if self.shadow is not None and self.shadow not in shadow_tables.written(self.database):
            own_tables.make_own(self.database, self.shadow)
            shadow_tables.add(self.database, self.shadow, "")
        schema = self._read_schema()
        for table in tables:
            schema.declare(table)
        self._make_tables(schema)

    def _read_schema(self) -> Schema:
        """The tables of this shadow by the names that views give them."""
        found, taken = self.database.found()
        if self.shadow is None:
            others = shadow_tables.names(self.database)
            taken += [table.name for table in found if table.name in others]
            tables = [table for table in found if table.name not in others]
            return Schema(tables, taken, self.database.limits)
        mine = {
            shadow_name(table, self.shadow): table
            for table in shadow_tables.tables(self.database, self.shadow)
        }
        end = shadow_name("", self.shadow)
        tables = [table.copied(mine[table.name]) for table in found if table.name in mine]
        taken += [table.name for table in found if table.name not in mine]
        limits = self.database.limits
        return Schema(
            tables,
            [name.removesuffix(end) for name in taken if name.endswith(end)],
            replace(limits, name_bytes=own_tables.name_bytes(self.shadow)),
        )

    def _make_tables(self, schema: Schema) -> None:
        types = self.database.types
        for table, column in schema.added:
            name = shadow_name(table.name, self.shadow)
            if column is None:
                self.database.run(create(name, table, types))
                self.database.mark(name, {**table.key, **table.columns})
                if self.shadow is not None:
                    shadow_tables.add(self.database, self.shadow, table.name)
            elif table.exists:
                kind = table.columns[column]
                self.database.run(add_column(name, column, sql_type(kind, types)))
                self.database.mark(name, {column: kind})

    def _write_rows(self, reduction: Reduction) -> None:
        for name, rows in reduction.rows.items():
            table = reduction.schema.tables[name]
            reduction.applied.deletes += self._delete(table, rows)
            reduction.applied.upserts += self._upsert(table, rows)

    def _delete(self, table: TableState, rows: TableChanges) -> int:
        """Delete rows that are to go, and those that start anew; return how many are to go."""
        gone = [key for key, values in rows.values.items() if values is None]
        keys = [*gone, *rows.reset]
        if keys:
            keys = self._stored(table.key.values(), keys)
            self.database.remove(shadow_name(table.name, self.shadow), list(table.key), keys)
        return len(gone)

    def _upsert(self, table: TableState, rows: TableChanges) -> int:
        """Write rows by the columns they set; return how many."""
        groups: dict[tuple[str, ...], list[tuple[Any, ...]]] = defaultdict(list)
        for key, values in rows.values.items():
            if values is not None:
                groups[tuple(values)].append((*key, *values.values()))
        name, keys = shadow_name(table.name, self.shadow), list(table.key)
        for columns, parameters in groups.items():
            kinds = (*table.key.values(), *map(table.columns.__getitem__, columns))
            self.database.put(name, keys, columns, self._stored(kinds, parameters))
        return sum(map(len, groups.values()))

    def _stored(self, kinds: Iterable[Kind], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Rows as the database's driver takes them."""
        made = list(map(self.database.stored, kinds))
        if not any(made):
            return rows
        return [
            tuple(
                value if make is None or value is None else make(value)
                for make, value in zip(made, row, strict=True)
            )
            for row in rows
        ]

    def _save_progress(self, reduction: Reduction) -> None:
        rows = []
        for stream in sorted(reduction.moved):
            epoch, sequence = reduction.marks[stream]
            rows.append((*stream, sequence, epoch))
        name = shadow_name("_progress", self.shadow)
        self.database.put(name, ("topic", "view", "stream"), ("sequence", "epoch"), rows)

    def _save_positions(self, reduction: Reduction) -> None:
        self._put_positions(reduction.positions.values())

    def _put_positions(self, positions: Iterable[Position]) -> None:
        columns = ("next_offset", "applied", "duplicates", "dead")
        rows = [
            (p.topic, p.partition, p.next_offset, p.applied, p.duplicates, p.dead)
            for p in positions
        ]
        name = shadow_name("_positions", self.shadow)
        self.database.put(name, ("topic", "partition"), columns, rows)

    def _save_dead(self, reduction: Reduction) -> None:
        self._dead.save(reduction.dead, self.keep_dead)

    def _save_batch(self, batch: Batch, applied: Applied) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        row = (batch.query, batch.number, at, applied.records)
        name = shadow_name("_batches", self.shadow)
        self.database.put(name, ("query",), ("number", "at", "records"), [row])

    # Looking.

    def _own(self, name: str) -> str:
        return quoted(shadow_name(name, self.shadow))

    def _table(self, name: str) -> TableState:
        with self.database.errors():
            table = self._read_schema().tables.get(name)
        if table is None:
            where = "the read store" if self.shadow is None else f"shadow {self.shadow!r}"
            raise StoreError(f"table {name!r}: {where} has no such table")
        return table

    def _last_batch(self, query: str) -> int | None:
        sql = f'SELECT number FROM {self._own("_batches")} WHERE "query" = ?'
        found = self.database.query(sql, [query])
        return int(found[0][0]) if found else None

    def _positions(self) -> dict[tuple[str, int], Position]:
        sql = (
            'SELECT topic, "partition", next_offset, applied, duplicates, dead '
            f'FROM {self._own("_positions")} ORDER BY topic, "partition"'
        )
        return {(row[0], row[1]): Position(*row) for row in self.database.query(sql)}
