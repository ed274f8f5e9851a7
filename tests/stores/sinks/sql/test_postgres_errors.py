"""What PostgreSQL says of a row, and what of anything else."""

import psycopg
import pytest

from stores.sinks import StoreError
from stores.sinks.errors import DataRefused
from stores.sinks.sql.postgres_database import PostgresDatabase


@pytest.fixture
def database() -> PostgresDatabase:
    """One without a connection."""
    found = PostgresDatabase.__new__(PostgresDatabase)
    found._url = found._name = "postgresql://host/database"
    return found


def said_by(database: PostgresDatabase, code: str | None) -> type[StoreError]:
    error = psycopg.Error("it says so") if code is None else psycopg.errors._class_for_state(code)()
    error.sqlstate = code
    with pytest.raises(StoreError) as found, database.errors():
        raise error
    return found.type


@pytest.mark.parametrize(
    "code",
    ["P0001", "P0002", "P0003", "P0004", "20000", "22012", "23514", "27000", "2F005", "38000",
     "39P01", "44000", "45000", "ORD01", "FOO01", "U0001"],
)  # fmt: skip
def test_what_a_trigger_ends_with_is_about_the_row(database: PostgresDatabase, code: str) -> None:
    assert said_by(database, code) is DataRefused


@pytest.mark.parametrize(
    "code",
    [None, "08006", "0LP01", "25006", "40001", "40P01", "42501", "42P01", "53100", "55P03",
     "57014", "57P01", "58030", "72000", "XX000"],
)  # fmt: skip
def test_what_ends_the_database_s_work_is_a_store_error(
    database: PostgresDatabase, code: str | None
) -> None:
    assert said_by(database, code) is StoreError
