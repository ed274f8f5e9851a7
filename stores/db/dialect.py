"""What SQLite and PostgreSQL say differently, for those who write to either."""

from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert(connection: Connection, table: Table) -> Any:
    """The dialect's INSERT, which has ON CONFLICT."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)


def check_commits(driver: Any) -> None:
    """Raise ValueError for a connection of sqlite3 whose `commit()` does nothing."""
    if getattr(driver, "autocommit", None) is True:
        raise ValueError(
            "the connection has autocommit=True, by which nothing that is begun is committed; "
            "leave it out"
        )


def begin_writing(connection: Connection) -> None:
    """In SQLite, be the one who writes from here on; elsewhere rows are locked one by one.

    Else a transaction that has read could not go on to write where another one wrote since. Raises
    ValueError where nobody would commit it.
    """
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.driver_connection  # of asyncio too
        if not driver.in_transaction:
            check_commits(driver)
            connection.exec_driver_sql("BEGIN IMMEDIATE")
