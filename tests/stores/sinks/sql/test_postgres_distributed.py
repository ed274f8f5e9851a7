"""Batches that are folded part by part keep the contract, and leave no staged rows behind."""

import os
import signal
import time
from collections.abc import Iterable
from typing import Any

import psycopg
import pytest

from stores.db.advisory_locks import ReadStoreLock
from stores.sinks import Batch, DeclaredTable, Position
from stores.sinks.contract import ORDERS, TOPIC, order, upsert, value
from stores.sinks.contract.dead import DeadContract
from stores.sinks.contract.epochs import EpochsContract
from stores.sinks.contract.fold import FoldContract
from stores.sinks.contract.once import OnceContract
from stores.sinks.contract.rows import RowsContract
from stores.sinks.contract.types import TypesContract
from stores.sinks.distributed import Fold, FoldedPart, NotDistributed
from stores.sinks.sql.postgres import PostgresSink
from stores.sinks.sql.postgres_database import PostgresDatabase
from stores.sinks.sql.postgres_staging import PostgresTransaction
from tests.forked import context
from tests.stores.sinks.parts import PartsContract, batch
from tests.stores.sinks.sql.distributed import DistributedPostgresSink, in_parts

pytestmark = pytest.mark.integration

STEPS = ("delete", "upsert", "save_streams", "save_positions", "save_dead", "save_batch")
CUTS = (
    *(("upsert", "after"), ("save_streams", "after"), ("write_staged", "before")),
    *(("write_staged", "after"), ("save_positions", "after"), ("save_dead", "after")),
    ("save_batch", "after"),
)


class TestDistributedPostgresSink(
    PartsContract,
    RowsContract,
    OnceContract,
    EpochsContract,
    DeadContract,
    FoldContract,
    TypesContract,
):
    stepping = PostgresTransaction
    steps = STEPS
    examples = 8
    url: str

    @pytest.fixture(autouse=True)
    def _url(self, database: str) -> None:
        self.url = database

    def open(
        self, tables: Iterable[DeclaredTable] = (), shadow: str | None = None
    ) -> DistributedPostgresSink:
        return DistributedPostgresSink(self.url, tables, shadow)

    def forget(self) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    def test_what_is_not_plain_is_left_to_the_driver(self) -> None:
        with self.open([ORDERS]) as sink:
            sink.apply([order(0, 1, new="column")])
            sink.apply([order(1, 2), (TOPIC, 1, 0, value("a", 3))])
            sink.apply([order(2, 9), (TOPIC, 1, 1, value("b", 1, upsert("orders", {"id": 5})))])
            assert sink.reasons == (
                "it needs new tables or columns",
                "stream 'a' has moved meanwhile",
            )
            assert [(p.applied, p.duplicates) for p in sink.progress()] == [(3, 0), (2, 0)]

    def test_a_writer_that_is_behind_changes_nothing(self) -> None:
        first, second = batch(0), batch(1)
        with self.open([ORDERS]) as sink, self.open([ORDERS]) as other:
            sink.apply(first)

            def overtaken(fold: Fold) -> list[FoldedPart]:
                parts = in_parts(second)(fold)
                assert other.apply(second).applied == 4
                return parts

            with pytest.raises(NotDistributed, match="another writer was faster"):
                sink.apply_distributed(overtaken)

            def made_anew(fold: Fold) -> list[FoldedPart]:
                parts = in_parts([order(8, 9, state="old")])(fold)
                again = value("a", 1, upsert("orders", {"id": 1}, state="new"), epoch=1)
                other.replace_streams([(TOPIC, 0, 0, again)], other.progress())
                return parts

            with pytest.raises(NotDistributed, match="stream 'a' has moved"):
                sink.apply_distributed(made_anew)
            assert sink.progress() == other.progress()
        assert self.rows("orders")[1,] == {"state": "new"}

    def test_a_partition_in_two_parts_is_left_to_the_driver(self) -> None:
        with self.open([ORDERS]) as sink:

            def split(fold: Fold) -> list[FoldedPart]:
                return [*in_parts([order(0, 1)])(fold), *in_parts([order(1, 2)])(fold)]

            with pytest.raises(NotDistributed, match="folded by several tasks"):
                sink.apply_distributed(split)
            assert sink.progress() == []

    def test_a_task_that_runs_again_and_one_that_is_killed_leave_nothing(self) -> None:
        with self.open([ORDERS]) as sink:

            def again(fold: Fold) -> list[FoldedPart]:
                assert in_parts(batch(0))(fold)  # whose answer is lost
                process = context.Process(target=_killed, args=(fold,))
                process.start()
                process.join(120)
                assert process.exitcode == -signal.SIGKILL
                assert _staged(self.url)
                with self.open([ORDERS]):  # A process that opens the store leaves them alone.
                    return in_parts(batch(0))(fold)

            assert sink.apply_distributed(again).applied == 4
            assert _staged(self.url) == []
            with pytest.raises(KeyboardInterrupt):
                sink.apply_distributed(_interrupted)
            assert _staged(self.url) == []
            in_parts(batch(1))(sink._fold())  # a task that outlives its batch
            assert _staged(self.url)
        _wait_for_writers(self.url)
        with self.open([ORDERS]):
            assert _staged(self.url) == []
        assert len(self.rows("orders")) == 3

    def test_a_column_that_is_another_one_by_then_is_left_to_the_driver(self) -> None:
        """Its values were staged as it was."""
        self.alter("CREATE TABLE sums (id BIGINT PRIMARY KEY, total NUMERIC(10, 2))")
        records = [(TOPIC, 0, 0, value("a", 1, upsert("sums", {"id": 1}, total=1.2345)))]
        with self.open() as sink:

            def altered(fold: Fold) -> list[FoldedPart]:
                parts = in_parts(records)(fold)
                self.alter("ALTER TABLE sums ALTER total TYPE NUMERIC(12, 4)")
                return parts

            with pytest.raises(NotDistributed, match="not as they were"):
                sink.apply_distributed(altered)
            assert _staged(self.url) == []
            assert sink.apply_distributed(in_parts(records)).upserts == 1
        assert self.rows("sums")[1,] == {"total": 1.2345}

    def test_what_a_writer_left_is_removed_in_portions(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As each table takes some of a server's locks."""
        with self.open([ORDERS]):
            pass
        for number in range(10):
            self.alter(f"CREATE UNLOGGED TABLE _staged_1_abc_{number} (a TEXT)")
        dropped: list[int] = []
        plain = PostgresDatabase.run

        def run(database: PostgresDatabase, sql: str) -> None:
            if sql.startswith("DROP TABLE _staged"):
                dropped.append(sql.count("_staged_1_abc_"))
            plain(database, sql)

        monkeypatch.setattr(PostgresDatabase, "run", run)
        monkeypatch.setattr("stores.sinks.sql.postgres_staging.AT_ONCE", 4)
        with self.open([ORDERS]):
            assert _staged(self.url) == []
        assert dropped == [4, 4, 2]

    def test_what_somebody_reads_is_removed_later(self) -> None:
        """As a dump of the database does, for hours."""
        with self.open([ORDERS]):
            pass
        self.alter("CREATE UNLOGGED TABLE _staged_1_abc_0 (a TEXT)")
        with psycopg.connect(self.url) as dump:
            dump.execute("LOCK TABLE _staged_1_abc_0 IN ACCESS SHARE MODE")
            with self.open([ORDERS]) as sink:
                assert sink.apply(batch(0)).applied == 4
                assert sink.reasons == ()
            assert _staged(self.url) == ["_staged_1_abc_0"]
        with self.open([ORDERS]):
            assert _staged(self.url) == []

    def test_a_batch_of_too_many_staged_tables_is_left_to_the_driver(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stores.sinks.sql.postgres.MOST_STAGED", 1)
        with self.open([ORDERS]) as sink:
            with pytest.raises(NotDistributed, match="staged in 2 tables"):
                sink.apply_distributed(in_parts([order(0, 1, state="new")]))
            assert _staged(self.url) == []

    def alter(self, sql: str) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(sql)


def test_a_driver_killed_at_any_step_leaves_a_batch_whole_or_not_there(database: str) -> None:
    with PostgresSink(database, [ORDERS]):
        pass
    for number, (step, when) in enumerate(CUTS):
        process = context.Process(target=_apply, args=(database, step, when, number))
        process.start()
        process.join(120)
        assert process.exitcode == -signal.SIGKILL
        _wait_for_writers(database)
        with DistributedPostgresSink(database, [ORDERS]) as sink:
            assert _staged(database) == [], (step, when)
            assert sink.last_batch("query") == (number - 1 if number else None), (step, when)
            assert sink.apply(batch(number), Batch("query", number)).applied == 4
            assert sink.reasons == ()
            assert sink.progress() == [
                Position(TOPIC, 0, 4 * number + 4, applied=3 * number + 3, dead=number + 1),
                Position(TOPIC, 1, number + 1, applied=number + 1),
            ]
            states = [row.get("state") for row in sink.rows("orders")]
            assert states == [f"{number}", f"{number}", None]


def _apply(url: str, step: str, when: str, number: int) -> None:
    plain = getattr(PostgresTransaction, step)
    sink = PostgresSink(url)

    def killed(*arguments: Any) -> None:
        if when == "after":
            plain(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(PostgresTransaction, step, killed)
    sink.apply_distributed(in_parts(batch(number)), Batch("query", number))


def _killed(fold: Fold) -> None:
    """Fold a part, and die when half of it is staged."""
    step = "save_streams"
    setattr(PostgresTransaction, step, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    fold(batch(0))


def _interrupted(fold: Fold) -> list[FoldedPart]:
    in_parts(batch(1))(fold)
    raise KeyboardInterrupt


def _wait_for_writers(url: str) -> None:
    """Wait until the server knows that those who staged rows are gone."""
    sql = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = %s"
    until = time.monotonic() + 60
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(sql, [int(ReadStoreLock.STAGES)]).fetchall():
            assert time.monotonic() < until
            time.sleep(0.01)


def _staged(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        sql = "SELECT relname::text FROM pg_class WHERE relname LIKE '\\_staged%'"
        return [name for (name,) in connection.execute(sql)]
