"""The connections that a producer may have, as one: what runs statements in its transaction."""

import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Transaction
from sqlalchemy.exc import DBAPIError

from stores.db.statement import Statement
from stores.outbox.message import MessageLogError

_UNDEFINED_TABLE = "42P01"


class Producer:
    """A producer's connection, within its transaction. dialect: as SQLAlchemy names it."""

    def __init__(self, connection: Any, dialect: str) -> None:
        self.connection = connection
        self.dialect = dialect
        self.transaction: Transaction | None = None

    def run(self, statement: Statement, values: Mapping[str, Any]) -> Sequence[Any]:
        """Run a statement; returns its rows."""
        raise NotImplementedError

    @contextmanager
    def errors(self, log: str) -> Iterator[None]:
        """Say it in words when the log's tables are not there."""
        try:
            yield
        except Exception as error:
            if _no_table(error):
                raise MessageLogError(
                    f"message log {log!r} is not in this database ({str(error).splitlines()[0]}); "
                    "call MessageLog.create(engine) once, with the log's name and schema"
                ) from error
            raise


class _Alchemy(Producer):
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, connection.dialect.name)
        if not connection.in_transaction():
            connection.begin()  # as the first statement would
        self.transaction = connection.get_transaction()
        _check_transaction(connection.connection.driver_connection)

    def run(self, statement: Statement, values: Mapping[str, Any]) -> Sequence[Any]:
        result = self.connection.execute(statement.clause, values)
        return result.all() if result.returns_rows else []


class _Sqlite(Producer):
    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection, "sqlite")
        _check_transaction(connection)

    def run(self, statement: Statement, values: Mapping[str, Any]) -> Sequence[Any]:
        cursor = self.connection.cursor()
        cursor.row_factory = None
        return cursor.execute(statement.named, values).fetchall()  # type: ignore[no-any-return]


class _Psycopg(Producer):
    def __init__(self, connection: Any) -> None:
        super().__init__(connection, "postgresql")
        _check_transaction(connection)

    def run(self, statement: Statement, values: Mapping[str, Any]) -> Sequence[Any]:
        psycopg = sys.modules["psycopg"]
        with self.connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
            cursor.execute(statement.pyformat, values)
            return cursor.fetchall()  # type: ignore[no-any-return]


def producer(connection: Any) -> Producer:
    """The connection as a `Producer`. Raises TypeError, and MessageLogError in autocommit."""
    if isinstance(connection, Connection):
        return _Alchemy(connection)
    if isinstance(connection, sqlite3.Connection):
        return _Sqlite(connection)
    psycopg = sys.modules.get("psycopg")
    if psycopg is not None and isinstance(connection, psycopg.Connection):
        return _Psycopg(connection)
    raise TypeError(
        f"{type(connection).__module__}.{type(connection).__name__}: give a Connection or Session "
        "of SQLAlchemy, or a connection of sqlite3 or psycopg"
    )


def _check_transaction(driver: Any) -> None:
    """Refuse a connection that commits each statement: there is no transaction to be part of."""
    if hasattr(driver, "in_transaction"):  # sqlite3 and aiosqlite
        alone = driver.isolation_level is None or getattr(driver, "autocommit", None) is True
        open_already = driver.in_transaction
    else:
        status: Any = getattr(getattr(driver, "info", None), "transaction_status", None)
        if not hasattr(status, "name"):
            raise MessageLogError(
                f"capture: connections of {type(driver).__module__} do not tell whether they are "
                "in a transaction; open the engine as postgresql+psycopg://…, async ones too"
            )
        alone = driver.autocommit
        open_already = status.name != "IDLE"
    if alone and not open_already:
        raise MessageLogError(
            "capture: the connection is in autocommit, so the message and the producer's own rows "
            "would be committed apart; begin a transaction first"
        )


def _no_table(error: Exception) -> bool:
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(original, sqlite3.OperationalError):
        return str(original).startswith("no such table")
    return getattr(original, "sqlstate", None) == _UNDEFINED_TABLE
