"""The message log in SQLite keeps the contract, and what is its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from stores.db.sqlite_engine import begin_immediate
from stores.outbox.log import MessageLog
from stores.outbox.message import MessageLogError
from tests.contracts.message_log import MessageLogContract


class TestSqlite(MessageLogContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = create_engine(f"sqlite:///{tmp_path}/shop.sqlite")
        yield engine
        engine.dispose()


class TestSqliteImmediate(MessageLogContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = begin_immediate(create_engine(f"sqlite:///{tmp_path}/shop.sqlite"))
        yield engine
        engine.dispose()


def test_sqlite_has_no_schemas() -> None:
    with pytest.raises(MessageLogError, match="no schemas"):
        MessageLog(schema="mine").create(create_engine("sqlite://"))


def test_other_databases_are_refused() -> None:
    from stores.outbox.tables import MessageTables

    with pytest.raises(MessageLogError, match=r"'mysql' cannot hold it; use SQLite or PostgreSQL"):
        MessageTables("log", None, "mysql")
