"""The message log in SQLite keeps the contract, and what is its own."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, inspect, text
from sqlalchemy.ext.asyncio import create_async_engine

from stores.db.sqlite_engine import begin_immediate
from stores.outbox.log import MessageLog
from stores.outbox.message import MessageLogError
from stores.outbox.tables import MessageTables
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
    with pytest.raises(MessageLogError, match=r"'mysql' cannot hold it; use SQLite or PostgreSQL"):
        MessageTables("log", None, "mysql")


class Killed(BaseException):
    pass


def layouts(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT version FROM sequitur_layout")).scalars())


def test_who_is_killed_while_a_log_is_made_leaves_nothing_and_nobody_sees_a_part(
    tmp_path: Path,
) -> None:
    file, seen = f"{tmp_path}/shop.sqlite", list[Any]()
    engine = create_engine(f"sqlite:///{file}")

    @event.listens_for(engine, "before_cursor_execute")
    def _kill(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("INSERT"):
            other = sqlite3.connect(file)
            seen.append(other.execute("SELECT name FROM sqlite_master").fetchall())
            other.close()
            raise Killed

    with pytest.raises(Killed):
        MessageLog().create(engine)
    engine.dispose()
    again = create_engine(f"sqlite:///{file}")
    assert (seen, inspect(again).get_table_names()) == ([[]], [])
    MessageLog().create(again)
    assert layouts(again) == [1]
    again.dispose()


def test_a_log_that_an_earlier_version_made_in_part_is_made_whole(tmp_path: Path) -> None:
    """That one committed table by table, and the line of its layout last of all."""
    engine = create_engine(f"sqlite:///{tmp_path}/shop.sqlite")
    with engine.begin() as connection:
        MessageTables("sequitur", None, "sqlite").layout.create(connection)
    for _ in range(2):
        MessageLog().create(engine)
        assert layouts(engine) == [1]
    assert inspect(engine).has_table("sequitur_messages")
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM sequitur_layout"))
    MessageLog().create(engine)
    assert layouts(engine) == [1]
    engine.dispose()


def test_where_all_is_there_nobody_who_writes_is_waited_for(tmp_path: Path) -> None:
    file = f"{tmp_path}/shop.sqlite"
    engine = create_engine(f"sqlite:///{file}", connect_args={"timeout": 0})
    MessageLog().create(engine)
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    MessageLog().create(engine)
    writer.close()
    engine.dispose()


def test_beside_tables_of_another_version_none_is_made(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/shop.sqlite")
    with engine.begin() as connection:
        MessageTables("sequitur", None, "sqlite").layout.create(connection)
        connection.execute(text("INSERT INTO sequitur_layout VALUES (99)"))
    with pytest.raises(MessageLogError, match=r"layout 99.*another name"):
        MessageLog().create(engine)
    assert inspect(engine).get_table_names() == ["sequitur_layout"]
    engine.dispose()


def test_the_tables_are_made_in_a_transaction_that_the_caller_has_begun(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/shop.sqlite")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE own (n int)"))
    for ending in ("rollback", "commit"):
        with engine.connect() as connection:
            connection.execute(text("INSERT INTO own VALUES (1)"))
            MessageLog().create(connection)
            getattr(connection, ending)()
        assert inspect(engine).has_table("sequitur_messages") == (ending == "commit")
    engine.dispose()


async def test_a_log_is_made_on_a_connection_of_asyncio(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/shop.sqlite")
    async with engine.begin() as connection:
        await connection.run_sync(MessageLog().create)
    async with engine.connect() as connection:
        found = await connection.execute(text("SELECT version FROM sequitur_layout"))
        assert found.scalars().all() == [1]
    await engine.dispose()


@pytest.mark.parametrize("of_engine", [False, True])
def test_a_log_is_made_on_a_connection_that_commits_by_itself(
    of_engine: bool, tmp_path: Path
) -> None:
    level: Any = {"isolation_level": "AUTOCOMMIT"}
    engine = create_engine(f"sqlite:///{tmp_path}/shop.sqlite", **(level if of_engine else {}))
    with engine.connect().execution_options(**level) as connection:
        MessageLog().create(connection)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version FROM sequitur_layout")).scalars().all() == [
            1
        ]
