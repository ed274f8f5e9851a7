"""A read store in a SQL database; what databases do differently is in `database`."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any, Self

from stores.sinks.columns import Kind
from stores.sinks.dead_limit import DeadCount, Kept, keep_from
from stores.sinks.fold_replacement import amendment
from stores.sinks.reduction import FEW, NOTHING, Mark, Reduction, Stream
from stores.sinks.row_changes import Rows, uncollected
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
    checked_side,
)
from stores.sinks.sql import own_tables
from stores.sinks.sql import shadow_tables as sql_sides
from stores.sinks.sql.database import (
    Database,
    DataRefused,
    add_column,
    create,
    listed,
    quoted,
    sql_type,
)
from stores.sinks.sql.dead_rows import SqlDead
from stores.sinks.sql.own_tables import SIDES, on_side


class SqlSink:
    """A `Sink` into a database, which it closes.

    tables: declared tables, made at once. side: whose tables are written, None for the live ones.
    Raises StoreError.
    """

    at_once = FEW

    def __init__(
        self, database: Database, tables: Iterable[DeclaredTable] = (), side: str | None = None
    ) -> None:
        self.database = database
        try:
            self.side = checked_side(side)
            self.keep_dead = keep_from()
            self._dead = SqlDead(database, self.side)
            with database.errors(), database.transaction(side, alone=True):
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
        with uncollected():
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
        with self.database.errors(), self.database.transaction(self.side):
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

    def amend(self, records: Iterable[OutputRecord], at: Iterable[Position]) -> Applied:
        """See `Sink.amend`."""
        in_order = sorted(records, key=itemgetter(0, 1, 2))
        with self.database.errors(), self.database.transaction(self.side):
            check_at(at, self._positions())
            reduction = amendment(self._read_schema(), in_order)
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
        with self.database.errors(), self.database.transaction(self.side):
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
        name = quoted(on_side(table, self.side))
        sql = f"SELECT {listed(kinds)} FROM {name} ORDER BY {order}"
        with database.errors(), database.read(sql) as found:
            for values in found:
                pairs = zip(kinds.items(), values, strict=True)
                yield {c: database.value(v, kind) for (c, kind), v in pairs if v is not None}

    def count(self, table: str) -> int:
        """See `Sink.count`."""
        self._table(table)
        with self.database.errors():
            name = quoted(on_side(table, self.side))
            return int(self.database.query(f"SELECT count(*) FROM {name}")[0][0])

    def sides(self) -> list[str]:
        """See `Sink.sides`."""
        with self.database.errors():
            found = self.database.query(f"SELECT DISTINCT side FROM {SIDES} ORDER BY side")
        return [side for (side,) in found]

    def switch(self, side: str, topics: Iterable[str]) -> None:
        """See `Sink.switch`."""
        if self.side is not None:
            raise StoreError(f"side {self.side!r} is no place to switch to; use the live sink")
        with self.database.errors(), self.database.transaction(None, alone=True):
            sql_sides.switch(self.database, side, list(topics))

    def drop(self, side: str) -> None:
        """See `Sink.drop`."""
        with self.database.errors(), self.database.transaction(None, alone=True):
            sql_sides.drop(self.database, side)

    def dead_counts(self) -> list[DeadCount]:
        """See `Sink.dead_counts`."""
        with self.database.errors():
            return self._dead.counts()

    def last_dead(self, limit: int) -> list[Kept]:
        """See `Sink.last_dead`."""
        with self.database.errors():
            return self._dead.last(limit)

    def remove_dead(
        self, topic: str | None = None, before: int | None = None, *, dry_run: bool = False
    ) -> int:
        """See `Sink.remove_dead`."""
        with self.database.errors(), self.database.transaction(self.side):
            return self._dead.remove(topic, before, dry_run=dry_run)

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What a reduction asks.

    def marks(self, streams: Iterable[Stream]) -> Mapping[Stream, Mark]:
        """See `Stored.marks`."""
        return self.database.marks(on_side("_progress", self.side), streams)

    def is_dead(self, topic: str, partition: int, offset: int) -> bool:
        """See `Stored.is_dead`."""
        return self._dead.has((topic, partition, offset))

    def forgetting(self, topic: str) -> str:
        """See `Stored.forgetting`."""
        return f"DELETE FROM {self._own('_positions')} WHERE topic = '{topic}'"

    # The transaction, step by step.

    def _prepare(self, tables: Iterable[DeclaredTable]) -> None:
        own_tables.make_all(self.database)
        if self.side is not None and self.side not in sql_sides.written(self.database):
            own_tables.make_side(self.database, self.side)
            sql_sides.add(self.database, self.side, "")
        schema = self._read_schema()
        for table in tables:
            schema.declare(table)
        self._make_tables(schema)

    def _read_schema(self) -> Schema:
        """The tables of this side by the names that views give them."""
        found, taken = self.database.found()
        if self.side is None:
            others = sql_sides.names(self.database)
            taken += [table.name for table in found if table.name in others]
            tables = [table for table in found if table.name not in others]
            return Schema(tables, taken, self.database.limits)
        mine = {
            on_side(table, self.side): table for table in sql_sides.tables(self.database, self.side)
        }
        end = on_side("", self.side)
        tables = [table.copied(mine[table.name]) for table in found if table.name in mine]
        taken += [table.name for table in found if table.name not in mine]
        limits = self.database.limits
        return Schema(
            tables,
            [name.removesuffix(end) for name in taken if name.endswith(end)],
            replace(limits, name_bytes=own_tables.room(self.side)),
        )

    def _make_tables(self, schema: Schema) -> None:
        types = self.database.types
        for table, column in schema.added:
            name = on_side(table.name, self.side)
            if column is None:
                self.database.run(create(name, table, types))
                self.database.mark(name, {**table.key, **table.columns})
                if self.side is not None:
                    sql_sides.add(self.database, self.side, table.name)
            elif table.exists:
                kind = table.columns[column]
                self.database.run(add_column(name, column, sql_type(kind, types)))
                self.database.mark(name, {column: kind})

    def _write_rows(self, reduction: Reduction) -> None:
        for name, rows in reduction.rows.items():
            table = reduction.schema.tables[name]
            reduction.applied.deletes += self._delete(table, rows)
            reduction.applied.upserts += self._upsert(table, rows)

    def _delete(self, table: TableState, rows: Rows) -> int:
        """Delete rows that are to go, and those that start anew; return how many are to go."""
        gone = [key for key, values in rows.values.items() if values is None]
        keys = [*gone, *rows.reset]
        if keys:
            keys = self._stored(table.key.values(), keys)
            self.database.remove(on_side(table.name, self.side), list(table.key), keys)
        return len(gone)

    def _upsert(self, table: TableState, rows: Rows) -> int:
        """Write rows by the columns they set; return how many."""
        groups: dict[tuple[str, ...], list[tuple[Any, ...]]] = defaultdict(list)
        for key, values in rows.values.items():
            if values is not None:
                groups[tuple(values)].append((*key, *values.values()))
        name, keys = on_side(table.name, self.side), list(table.key)
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
        name = on_side("_progress", self.side)
        self.database.put(name, ("topic", "view", "stream"), ("sequence", "epoch"), rows)

    def _save_positions(self, reduction: Reduction) -> None:
        self._put_positions(reduction.positions.values())

    def _put_positions(self, positions: Iterable[Position]) -> None:
        columns = ("next_offset", "applied", "duplicates", "dead")
        rows = [
            (p.topic, p.partition, p.next_offset, p.applied, p.duplicates, p.dead)
            for p in positions
        ]
        name = on_side("_positions", self.side)
        self.database.put(name, ("topic", "partition"), columns, rows)

    def _save_dead(self, reduction: Reduction) -> None:
        self._dead.save(reduction.dead, self.keep_dead)

    def _save_batch(self, batch: Batch, applied: Applied) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        row = (batch.query, batch.number, at, applied.records)
        name = on_side("_batches", self.side)
        self.database.put(name, ("query",), ("number", "at", "records"), [row])

    # Looking.

    def _own(self, name: str) -> str:
        return quoted(on_side(name, self.side))

    def _table(self, name: str) -> TableState:
        with self.database.errors():
            table = self._read_schema().tables.get(name)
        if table is None:
            where = "the read store" if self.side is None else f"side {self.side!r}"
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
