"""A read store in a PostgreSQL database."""

from collections.abc import Callable, Iterable
from typing import Any

from stores.sinks.distributed import Fold, FoldedPart, NotDistributed
from stores.sinks.errors import DataRefused
from stores.sinks.records import Applied, Batch, OnDead
from stores.sinks.sink import DeclaredTable
from stores.sinks.sql.catalog import read_schema
from stores.sinks.sql.postgres_database import PostgresDatabase
from stores.sinks.sql.postgres_staging import (
    MOST_STAGED,
    PostgresFold,
    PostgresTransaction,
    drop_left,
    hold_stages,
)
from stores.sinks.sql.sink import SqlSink


class PostgresSink(SqlSink):
    """A `Sink` into the database at `postgresql://user:password@host:port/database`.

    Its tables are in the first schema of the user's search path. tables: declared tables, made at
    once. shadow: whose tables are written. Raises StoreError.
    """

    transaction = PostgresTransaction

    def __init__(
        self, url: str, tables: Iterable[DeclaredTable] = (), shadow: str | None = None
    ) -> None:
        self._postgres, self._url = PostgresDatabase(url), url
        self._writer: int | None = None
        super().__init__(self._postgres, tables, shadow)
        drop_left(self._postgres)

    def apply_distributed(
        self,
        run: Callable[[Fold], Iterable[FoldedPart]],
        batch: Batch | None = None,
        on_dead: OnDead | None = None,
    ) -> Applied:
        """See `DistributedSink.apply_distributed`."""
        fold = self._fold()
        columns = self._postgres.columns
        try:
            parts = list(run(fold))
            for part in parts:
                if part.refused is not None:
                    raise NotDistributed(part.refused)
            if (staged := sum(len(part.writes) for part in parts)) > MOST_STAGED:
                raise NotDistributed(f"it is staged in {staged:,} tables")
            parts.sort(key=lambda part: [(p.topic, p.partition) for p in part.positions])
            try:
                return self._commit(fold, columns, parts, batch, on_dead)
            except DataRefused as refused:
                raise NotDistributed(str(refused)) from refused
        finally:
            drop_left(self._postgres)

    def _fold(self) -> PostgresFold:
        database = self._postgres
        with database.errors():
            if self._writer is None:
                self._writer = hold_stages(database)
            schema = read_schema(database, self.shadow)
            return PostgresFold(
                self._url, self.shadow, self._writer, schema, self._progress.positions()
            )

    def _commit(
        self,
        fold: PostgresFold,
        columns: list[tuple[Any, ...]],
        parts: list[FoldedPart],
        batch: Batch | None,
        on_dead: OnDead | None,
    ) -> Applied:
        applied = Applied()
        dead = [each for part in parts for each in part.dead]
        with PostgresTransaction.begin(self.database, self.shadow) as transaction:
            if batch is not None:
                transaction.expect(batch, self._seen.get(batch.query))
            transaction.schema()
            if self._postgres.columns != columns:
                raise NotDistributed("tables are not as they were when it was folded")
            transaction.expect_positions(parts, fold.positions)
            for part in parts:
                transaction.write_staged(part.writes)
                transaction.save_positions(part.positions)
                applied.add(part.applied)
            transaction.save_dead(dead, self.keep_dead)
            transaction.save_batch(batch, applied)
            if dead and on_dead is not None:
                on_dead(dead)
        self._saw(batch, transaction)
        return applied
