"""A read store in a SQL database; what databases do differently is in `database`."""

import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import Any, Self

from stores.sinks.dead_limit import DeadCount, Removal, StoredDead, keep_from
from stores.sinks.halving import Refusals, apply_with_refused
from stores.sinks.records import Applied, Batch, OnDead, OutputRecord, Position, check_at
from stores.sinks.reduction import Reduction
from stores.sinks.replacement import fold_replacement
from stores.sinks.row_changes import gc_paused
from stores.sinks.schema import TableState
from stores.sinks.shadows import check_live, checked_shadow, no_such_table, shadow_name
from stores.sinks.sink import DeclaredTable
from stores.sinks.sql import shadow_tables
from stores.sinks.sql.catalog import read_schema
from stores.sinks.sql.database import Database, listed, quoted
from stores.sinks.sql.dead_rows import SqlDeadRecords
from stores.sinks.sql.own_tables import SHADOWS
from stores.sinks.sql.progress import SqlProgress
from stores.sinks.sql.transaction import SqlTransaction


class SqlSink:
    """A `Sink` into a database, which it closes.

    Args:
        database: one connection, which is the sink's from now on.
        tables: declared tables, made at once.
        shadow: the shadow tables to write, None for the live ones.

    Raises:
        StoreError: the database cannot be used as it is.
    """

    transaction: type[SqlTransaction] = SqlTransaction

    def __init__(
        self, database: Database, tables: Iterable[DeclaredTable] = (), shadow: str | None = None
    ) -> None:
        self.database = database
        self._seen: dict[str, int | None] = {}
        try:
            self.shadow = checked_shadow(shadow)
            self.keep_dead = keep_from()
            self._dead = SqlDeadRecords(database, self.shadow)
            self._progress = SqlProgress(database, self.shadow)
            with self._begin(alone=True) as transaction:
                transaction.prepare(tables)
        except BaseException:
            database.close()
            raise

    def _begin(self, *, alone: bool = False) -> AbstractContextManager[SqlTransaction]:
        return self.transaction.begin(self.database, self.shadow, alone=alone)

    def apply(
        self,
        records: Iterable[OutputRecord],
        batch: Batch | None = None,
        on_dead: OnDead | None = None,
    ) -> Applied:
        """See `Sink.apply`."""
        with gc_paused():
            return apply_with_refused(self._apply, list(records), batch, on_dead)

    def _apply(
        self,
        records: list[OutputRecord],
        batch: Batch | None,
        on_dead: OnDead | None,
        refused: Refusals,
    ) -> Applied:
        with self._begin() as transaction:
            if batch is not None:
                transaction.expect(batch, self._seen.get(batch.query))
            progress = transaction.progress
            reduction = Reduction(transaction.schema(), progress, progress.positions(), refused)
            reduction.fold(records)
            transaction.make_tables(reduction.schema)
            transaction.write_rows(reduction)
            transaction.save_streams(reduction)
            transaction.save_positions(reduction.positions.values())
            transaction.save_dead(reduction.dead, self.keep_dead)
            transaction.save_batch(batch, reduction.applied)
            if reduction.dead and on_dead is not None:
                on_dead(reduction.dead)
        self._saw(batch, transaction)
        return reduction.applied

    def _saw(self, batch: Batch | None, transaction: SqlTransaction) -> None:
        """Remember which batch was the last one when a transaction had been committed."""
        if batch is not None:
            self._seen[batch.query] = transaction.last

    def replace_streams(self, records: Iterable[OutputRecord], at: Iterable[Position]) -> Applied:
        """See `Sink.replace_streams`."""
        in_order = sorted(records, key=itemgetter(0, 1, 2))
        with self._begin() as transaction:
            check_at(at, transaction.progress.positions())
            reduction = fold_replacement(transaction.schema(), in_order)
            transaction.make_tables(reduction.schema)
            transaction.write_rows(reduction)
            transaction.save_streams(reduction)
        return reduction.applied

    def last_batch(self, query: str) -> int | None:
        """See `Sink.last_batch`."""
        with self.database.errors():
            return self._progress.last_batch(query)

    def progress(self) -> list[Position]:
        """See `Sink.progress`."""
        with self.database.errors():
            return list(self._progress.positions().values())

    def seek(self, positions: Iterable[Position]) -> None:
        """See `Sink.seek`."""
        positions = list(positions)
        with self._begin() as transaction:
            for topic in sorted({position.topic for position in positions}):
                transaction.progress.forget_topic(topic)
            transaction.save_positions(positions)

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """See `Sink.rows`."""
        database, state = self.database, self._table(table)
        kinds = {**state.key, **state.columns}
        order = ", ".join(database.order_by(column, kind) for column, kind in state.key.items())
        name = quoted(shadow_name(table, self.shadow))
        sql = f"SELECT {listed(kinds)} FROM {name} ORDER BY {order}"
        with database.errors(), database.stream_rows(sql) as found:
            for values in found:
                pairs = zip(kinds.items(), values, strict=True)
                yield {c: database.decoded(v, kind) for (c, kind), v in pairs if v is not None}

    def count(self, table: str) -> int:
        """See `Sink.count`."""
        self._table(table)
        with self.database.errors():
            name = quoted(shadow_name(table, self.shadow))
            return int(self.database.query(f"SELECT count(*) FROM {name}")[0][0])

    def _table(self, name: str) -> TableState:
        with self.database.errors():
            table = read_schema(self.database, self.shadow).tables.get(name)
        if table is None:
            raise no_such_table(name, self.shadow)
        return table

    def shadows(self) -> list[str]:
        """See `Sink.shadows`."""
        with self.database.errors():
            found = self.database.query(f"SELECT DISTINCT shadow FROM {SHADOWS} ORDER BY shadow")
        return [shadow for (shadow,) in found]

    def switch(self, shadow: str, topics: Iterable[str]) -> None:
        """See `Sink.switch`."""
        check_live(self.shadow)
        with self._begin(alone=True):
            shadow_tables.switch(self.database, shadow, list(topics))

    def drop(self, shadow: str) -> None:
        """See `Sink.drop`."""
        with SqlTransaction.begin(self.database, None, alone=True):
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
        self, topic: str | None = None, before: int | None = None, *, dry_run: bool = False,
        by: str = "", why: str = "",
    ) -> int:  # fmt: skip
        """See `Sink.remove_dead`."""
        with self._begin() as transaction:
            number = transaction.dead.remove(topic, before, dry_run=dry_run)
            if number and not dry_run:
                transaction.dead.record(Removal(int(time.time()), by, why, topic, number))
            return number

    def removals(self, limit: int) -> list[Removal]:
        """See `Sink.removals`."""
        with self.database.errors():
            return self._dead.removals(limit)

    def close(self) -> None:
        """Close the connection."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
