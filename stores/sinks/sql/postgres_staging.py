"""Parts of a batch that are folded by other processes, and wait in tables until they are committed.

Each attempt at a part makes unlogged tables of its own, which are named for the connection of the
writer that takes them. That connection holds a lock as long as it lives: tables whose lock is free
are left over, and removed by whoever opens the store next.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from stores.db.advisory_locks import ReadStoreLock
from stores.sinks.decoding import Mark, Stream
from stores.sinks.distributed import FoldedPart, NotDistributed, StagedWrite
from stores.sinks.errors import StoreError
from stores.sinks.records import OutputRecord, Position
from stores.sinks.reduction import Reduction
from stores.sinks.row_changes import gc_paused
from stores.sinks.schema import Schema
from stores.sinks.shadows import shadow_name
from stores.sinks.sql.database import listed, quoted
from stores.sinks.sql.postgres_database import PostgresDatabase
from stores.sinks.sql.postgres_values import written_text
from stores.sinks.sql.transaction import SqlTransaction

MOST_STAGED = 2_000
"""Tables that a commit takes: with each it holds locks, for which a server has room for some
thousands."""
AT_ONCE = 100
"""Tables that are dropped in one transaction, for the same reason."""
_PREFIX = "_staged_"
_WAS = ("was_epoch", "was_sequence")
"""How far a stream was when its records were folded."""


class StagingDatabase(PostgresDatabase):
    """A database whose writes wait, in tables of their own.

    Args:
        url: of the database.
        writer: the connection that will take them, as `hold_stages` says it.
        progress: the table of streams.
    """

    def __init__(self, url: str, writer: int, progress: str) -> None:
        super().__init__(url)
        self.writes: list[StagedWrite] = []
        self._name_of_all = f"{_PREFIX}{writer}_{uuid4().hex[:12]}"
        self._progress = progress
        self._read: dict[Stream, Mark] = {}

    def read_marks(self, table: str, streams: Iterable[Stream]) -> dict[Stream, Mark]:
        """See `Database.read_marks`; what was read is remembered."""
        found = super().read_marks(table, streams)
        self._read.update(found)
        return found

    def upsert(
        self, table: str, key: Sequence[str], columns: Sequence[str], rows: list[tuple[Any, ...]]
    ) -> None:
        """See `Database.upsert`."""
        names = listed((*key, *columns))
        if table == self._progress:
            names += f", epoch AS {_WAS[0]}, sequence AS {_WAS[1]}"
            rows = [
                (*map(written_text, row), *self._read.get(row[:3], (None, None))) for row in rows
            ]
        self._stage(table, key, tuple(columns), names, rows)

    def delete(self, table: str, key: Sequence[str], keys: list[tuple[Any, ...]]) -> None:
        """See `Database.delete`."""
        self._stage(table, key, None, listed(key), keys)

    def _stage(
        self,
        table: str,
        key: Sequence[str],
        columns: tuple[str, ...] | None,
        names: str,
        rows: list[tuple[Any, ...]],
    ) -> None:
        if rows:
            stage = f"{self._name_of_all}_{len(self.writes)}"
            made = f"CREATE UNLOGGED TABLE {stage} AS SELECT {names} FROM {quoted(table)}"
            self.run(f"{made} WITH NO DATA")
            self.copy_in(stage, rows)
            self.writes.append(StagedWrite(stage, table, tuple(key), columns))


class PostgresTransaction(SqlTransaction):
    """A `SqlTransaction` that also takes what was staged."""

    _database: PostgresDatabase

    def expect_positions(
        self, parts: Iterable[FoldedPart], known: Mapping[tuple[str, int], Position]
    ) -> None:
        """Raise NotDistributed if partitions are not where they were when parts were folded."""
        now, seen = self.progress.positions(), set[tuple[str, int]]()
        for position in (position for part in parts for position in part.positions):
            at = position.topic, position.partition
            if now.get(at) != known.get(at):
                raise NotDistributed("another writer was faster")
            if at in seen:
                raise NotDistributed(
                    f"records of topic {at[0]!r} partition {at[1]} were folded by several tasks"
                )
            seen.add(at)

    def write_staged(self, writes: Iterable[StagedWrite]) -> None:
        """Write what was staged, in order. Raises NotDistributed."""
        database = self._database
        for write in writes:
            if write.columns is None:
                database.delete_from(write.stage, write.table, write.key)
                continue
            if write.table == shadow_name("_progress", self._shadow):
                self._expect_marks(write)
            database.upsert_from(write.stage, write.table, write.key, write.columns)

    def _expect_marks(self, write: StagedWrite) -> None:
        """Streams are where they were: they are in one part only, and nobody made them anew."""
        found = self._database.query(
            f"SELECT stream FROM {write.stage} AS s LEFT JOIN {quoted(write.table)} AS p "
            f"USING ({listed(write.key)}) WHERE p.epoch IS DISTINCT FROM s.{_WAS[0]} "
            f"OR p.sequence IS DISTINCT FROM s.{_WAS[1]} LIMIT 1"
        )
        if found:
            raise NotDistributed(f"stream {found[0][0]!r} has moved meanwhile")


def drop_left(database: PostgresDatabase) -> None:
    """Remove what was staged for this writer, and for those that are gone; next time what somebody
    reads now, such as a dump of the database."""
    found: list[str] = []
    with suppress(StoreError), database.errors():
        found = _stages(database)
    for writer in {int(name.split("_")[2]) for name in found}:
        with suppress(StoreError), database.errors():
            _drop_stages(database, writer)


def _drop_stages(database: PostgresDatabase, writer: int) -> None:
    """Remove all tables that were staged for a writer, unless another connection is that."""
    names = [""]
    while names:
        with database.alone_with(writer) as free:
            names = _stages(database, writer)[:AT_ONCE] if free else []
            if names:
                database.run(f"DROP TABLE {', '.join(names)}")


def _stages(database: PostgresDatabase, writer: int | None = None) -> list[str]:
    sql = (
        "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relname ~ ? "
        "AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
    )
    of = "[0-9]{1,9}" if writer is None else str(writer)
    return [name for (name,) in database.query(sql, [f"^{_PREFIX}{of}_[0-9a-f]+_[0-9]+$"])]


def hold_stages(database: PostgresDatabase) -> int:
    """Return what to stage for this connection by, which is its own until it ends."""
    ((writer,),) = database.query("SELECT pg_backend_pid()")
    database.query("SELECT pg_advisory_lock(?, ?)", [int(ReadStoreLock.STAGES), writer])
    return int(writer)


@dataclass(frozen=True)
class PostgresFold:
    """Folds a part of a batch on whichever machine it is; a `Fold`.

    Attributes:
        url: of the database.
        shadow: the shadow tables to write, None for the live ones.
        writer: see `hold_stages`.
        schema: the tables.
        positions: how far partitions are.
    """

    url: str = field(repr=False)
    shadow: str | None
    writer: int
    schema: Schema
    positions: Mapping[tuple[str, int], Position]

    def __call__(self, records: Iterable[OutputRecord]) -> FoldedPart:
        """Fold records, and stage what they come to."""
        progress = shadow_name("_progress", self.shadow)
        try:
            with (
                gc_paused(),
                closing(StagingDatabase(self.url, self.writer, progress)) as database,
                database.errors(),
            ):
                return self._folded(database, records)
        except StoreError as error:
            return FoldedPart(str(error))

    def _folded(self, database: StagingDatabase, records: Iterable[OutputRecord]) -> FoldedPart:
        transaction = PostgresTransaction(database, self.shadow)
        reduction = Reduction(self.schema, transaction.progress, self.positions)
        reduction.fold(records)
        if reduction.schema.added:
            return FoldedPart("it needs new tables or columns")
        with database.staging():
            transaction.write_rows(reduction)
            transaction.save_streams(reduction)
        positions = list(reduction.positions.values())
        return FoldedPart(None, database.writes, positions, reduction.applied, reduction.dead)
