"""SQLite as a producer's database: transactions that write from their start."""

from typing import Any

from sqlalchemy import Connection, Engine, event

from stores.db.dialect import check_commits
from stores.db.sqlite_wal import set_wal

BUSY = 20_000
"""Milliseconds that a transaction waits for the one before it."""


def begin_immediate(engine: Engine) -> Engine:
    """Have every transaction of a SQLite engine take the right to write when it begins.

    Without it, a transaction that reads before it writes fails at once ("database is locked") if
    another one wrote in between, however long it would wait. It also sets WAL mode, with commits
    that survive a loss of power.

    Args:
        engine: the engine, before its first connection.

    Returns:
        The same engine.
    """

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _: Any) -> None:
        check_commits(connection)
        connection.isolation_level = None  # sqlite3 itself begins nothing
        connection.execute(f"PRAGMA busy_timeout={BUSY}")
        set_wal(connection, BUSY / 1000)
        connection.execute("PRAGMA synchronous=FULL")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
