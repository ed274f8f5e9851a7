"""What a database refuses as data is told from a database that is away or not as it should be."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError, SQLAlchemyError

from stores.db.data_errors import OF_DATA, is_of_data, is_passing


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = create_engine("sqlite://")
    yield engine
    engine.dispose()


def failure(engine: Engine, sql: str, **values: Any) -> BaseException:
    with engine.connect() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, b TEXT)"))
        with pytest.raises((SQLAlchemyError, *OF_DATA)) as caught:
            connection.execute(text(sql), values).all()
    return caught.value


@pytest.mark.parametrize("value", [2**63, "\ud800", {1}], ids=["integer", "surrogate", "set"])
def test_a_value_that_no_column_takes_is_of_data(engine: Engine, value: Any) -> None:
    assert is_of_data(failure(engine, "INSERT INTO t VALUES (1, :b)", b=value))


def test_what_is_no_text_and_a_key_that_is_there_are_of_data(engine: Engine) -> None:
    assert is_of_data(failure(engine, "SELECT CAST(x'ff' AS TEXT)"))
    assert is_of_data(failure(engine, "INSERT INTO t VALUES (1, 'a'), (1, 'b')"))


@pytest.mark.parametrize("sql", ["SELECT type FROM t", "SELECT * FROM types", "SELECT type("])
def test_a_table_or_column_that_is_not_there_is_not_of_data_whatever_its_name(
    engine: Engine, sql: str
) -> None:
    """Messages would be set aside for ever because somebody altered a table."""
    assert not is_of_data(failure(engine, sql))


@pytest.mark.parametrize(
    "sql", ["SELECT json_extract('{', '$')", "SELECT abs(-9223372036854775808)", "SELECT a FROM no"]
)
def test_what_a_statement_asks_for_fails_again(engine: Engine, sql: str) -> None:
    error = failure(engine, sql)
    assert isinstance(error, DBAPIError)
    assert not is_passing(error)


def test_what_others_hold_or_no_disk_has_may_do_later(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/t.db", connect_args={"timeout": 0})
    nowhere = create_engine(f"sqlite:///{tmp_path}/no/t.db")
    with closing(sqlite3.connect(tmp_path / "t.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        for each in (engine, nowhere):
            with pytest.raises(OperationalError) as caught, each.connect() as connection:
                connection.execute(text("CREATE TABLE t (a INTEGER)"))
            assert is_passing(caught.value)
    engine.dispose()


class Said(Exception):
    def __init__(self, sqlstate: str | None) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


def test_postgresql_says_by_its_code_what_may_do_later() -> None:
    for code in ("08006", "25006", "40001", "40P01", "53100", "55P03", "57P01", "58030", None):
        assert is_passing(OperationalError("SELECT", {}, Said(code))), code
    for code in ("54000", "57014", "55006"):
        assert not is_passing(OperationalError("SELECT", {}, Said(code))), code
    assert not is_passing(ProgrammingError("SELECT", {}, Said(None)))
