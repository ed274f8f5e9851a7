"""A read store in a PostgreSQL database."""

from collections.abc import Callable, Iterable

from stores.sinks.distributed import Fold, FoldedPart, NotDistributed
from stores.sinks.records import Applied, Batch, OnDead
from stores.sinks.sink import DeclaredTable
from stores.sinks.sql.catalog import read_schema
from stores.sinks.sql.database import DataRefused
from stores.sinks.sql.postgres_database import PostgresDatabase
from stores.sinks.sql.postgres_staging import PostgresFold, PostgresTransaction, hold_stages
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

    def apply_distributed(
        self,
        run: Callable[[Fold], Iterable[FoldedPart]],
        batch: Batch | None = None,
        on_dead: OnDead | None = None,
    ) -> Applied:
        """See `DistributedSink.apply_distributed`."""
        fold = self._fold()
        parts = list(run(fold))
        for part in parts:
            if part.refused is not None:
                raise NotDistributed(part.refused)
        parts.sort(key=lambda part: [(p.topic, p.partition) for p in part.positions])
        try:
            return self._commit(fold, parts, batch, on_dead)
        except DataRefused as refused:
            raise NotDistributed(str(refused)) from refused

    def _fold(self) -> PostgresFold:
        database = self._postgres
        with database.errors():
            if self._writer is None:
                with PostgresTransaction.begin(database, self.shadow) as transaction:
                    transaction.drop_left()
                self._writer = hold_stages(database)
            schema = read_schema(database, self.shadow)
            return PostgresFold(
                self._url, self.shadow, self._writer, schema, self._progress.positions()
            )

    def _commit(
        self,
        fold: PostgresFold,
        parts: list[FoldedPart],
        batch: Batch | None,
        on_dead: OnDead | None,
    ) -> Applied:
        applied = Applied()
        dead = [each for part in parts for each in part.dead]
        with PostgresTransaction.begin(self.database, self.shadow) as transaction:
            if batch is not None:
                transaction.expect(batch)
            transaction.expect_positions(parts, fold.positions)
            for part in parts:
                transaction.write_staged(part.writes)
                transaction.save_positions(part.positions)
                applied.add(part.applied)
            transaction.save_dead(dead, self.keep_dead)
            transaction.save_batch(batch, applied.records)
            transaction.drop_stages(fold.writer)
            if dead and on_dead is not None:
                on_dead(dead)
        return applied
