"""What a database refuses as data is told from a database that is away or not as it should be."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from stores.db.data_errors import OF_DATA, is_of_data


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
