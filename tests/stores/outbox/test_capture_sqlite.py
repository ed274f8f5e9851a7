"""Capture in SQLite keeps the contract, and transactions that read before they write."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, func, insert, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from stores.db.sqlite_engine import begin_immediate
from stores.outbox.message import Draft, MessageLogError
from tests.contracts.outbox import OWN, OutboxContract


class TestSqlite(OutboxContract):
    begin = "BEGIN"

    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        self.file = f"{tmp_path}/shop.sqlite"
        engine = create_engine(f"sqlite:///{self.file}")
        yield engine
        engine.dispose()

    @pytest.fixture
    def async_engine(self) -> AsyncEngine:
        return create_async_engine(f"sqlite+aiosqlite:///{self.file}")

    def raw(self) -> sqlite3.Connection:
        return sqlite3.connect(self.file)

    def raw_autocommit(self) -> sqlite3.Connection:
        return sqlite3.connect(self.file, isolation_level=None)

    def test_a_connection_of_rows_of_any_kind_captures(self) -> None:
        def as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
            return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}

        for times, factory in enumerate((as_dict, sqlite3.Row)):
            with closing(self.raw()) as connection, connection:
                connection.row_factory = factory
                assert self.capture(connection) == 1 + times
                drafts = [Draft("mails", "A-17", None, b"")] * 2
                sequences = [1 + 2 * times, 2 + 2 * times]
                assert self.outbox.capture_many(connection, drafts) == sequences
                assert connection.row_factory is factory


class TestSqliteImmediate(TestSqlite):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        self.file = f"{tmp_path}/shop.sqlite"
        engine = begin_immediate(create_engine(f"sqlite:///{self.file}"))
        yield engine
        engine.dispose()

    def test_a_connection_in_autocommit_is_refused(self) -> None:
        """But that of SQLAlchemy is in none: every one of the engine begins a transaction."""
        engine = self.db.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            assert self.capture(connection) == 1
            connection.rollback()
        raw = self.raw_autocommit()
        with pytest.raises(MessageLogError, match="autocommit"):
            self.capture(raw)
        raw.close()
        self.agree(0)

    def test_transactions_that_read_first_wait_for_one_another(self) -> None:
        def order(_: int) -> int:
            with self.db.begin() as connection:
                count = connection.execute(select(func.count()).select_from(OWN)).scalar()
                connection.execute(insert(OWN).values(name=str(count)))
                return self.capture(connection)

        with ThreadPoolExecutor(8) as pool:
            assert sorted(pool.map(order, range(80))) == [*range(1, 81)]
        self.agree(80)


def test_without_begin_immediate_one_that_read_first_is_refused(tmp_path: Path) -> None:
    """The advice is needed: this is what happens without."""
    url = f"sqlite:///{tmp_path}/shop.sqlite"
    plain = create_engine(url)
    with plain.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    OWN.metadata.create_all(plain)
    # sqlite3 itself begins when something is written; others begin when something is read.
    with plain.connect() as one, plain.connect() as other:
        one.exec_driver_sql("BEGIN")
        one.execute(select(OWN)).all()
        other.execute(insert(OWN))
        other.commit()
        with pytest.raises(OperationalError, match="locked"):
            one.execute(insert(OWN))
    plain.dispose()
