"""The notifier wakes the reader of a log that has nothing to read.

In PostgreSQL a NOTIFY makes the commits of all that notify wait for one another, so producers do it
only while the reader sleeps. A reader that is about to sleep takes an advisory lock; a producer
takes the same one shared, until its transaction ends, and notifies where it cannot have it. So
either the producer sees that the reader sleeps, or the reader sees that a producer is not done yet,
and does not fall asleep. In SQLite, the file's own counter of changes is looked at instead.
"""

import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from stores.outbox.append_statements import notification
from stores.outbox.log import MessageLog
from stores.outbox.tables import MessageTables

NAP = 0.01
"""Seconds between looks, where nobody notifies."""


class Notifier:
    """Wakes the one reader of `log`. Used by one thread at a time; it has a connection of its own.

    When that breaks, or another reader sleeps already, waits are short and end by themselves.
    """

    def __init__(self, engine: Engine, log: MessageLog) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._postgres = engine.dialect.name == "postgresql"
        tables = MessageTables(log.name, log.schema, engine.dialect.name)
        self._notification = notification(tables)
        self._changes: int | None = None

    def wait(self, seconds: float, idle: Callable[[], bool]) -> None:
        """Sleep until there may be something to read, at most `seconds`.

        idle: looks whether there is nothing to read; called once, when producers notify.
        """
        try:
            self._wait(time.monotonic() + seconds, idle)
        except (SQLAlchemyError, self._engine.dialect.dbapi.Error):  # type: ignore[union-attr]
            self.close()
            time.sleep(min(seconds, NAP))

    def close(self) -> None:
        """Let go of the connection; a later wait makes another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()  # whatever it listens to and holds goes with it
            connection.close()

    def _wait(self, deadline: float, idle: Callable[[], bool]) -> None:
        connection = self._open()
        if not self._postgres:
            self._watch(connection, deadline, idle)
            return
        if not self._ask(connection, "SELECT pg_try_advisory_lock(:lock)"):
            time.sleep(max(0.0, min(deadline - time.monotonic(), NAP)))
            return
        try:
            driver: Any = connection.connection.driver_connection
            for _ in driver.notifies(timeout=0):
                pass  # of the time before
            if idle():
                left = max(0.0, deadline - time.monotonic())
                for _ in driver.notifies(timeout=left, stop_after=1):
                    pass
        finally:
            self._ask(connection, "SELECT pg_advisory_unlock(:lock)")

    def _open(self) -> Connection:
        if self._connection is None:
            connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if self._postgres:
                connection.execute(text(f'LISTEN "{self._notification["channel"]}"'))
            self._connection = connection
        return self._connection

    def _ask(self, connection: Connection, sql: str) -> bool:
        return bool(connection.execute(text(sql), {"lock": self._notification["lock"]}).scalar())

    def _watch(self, connection: Connection, deadline: float, idle: Callable[[], bool]) -> None:
        counter = text("PRAGMA data_version")
        before = connection.execute(counter).scalar()
        if before != self._changes or not idle():
            self._changes = before
            return
        while time.monotonic() < deadline:
            if connection.execute(counter).scalar() != before:
                return
            time.sleep(NAP)
