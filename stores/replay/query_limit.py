"""How long a query may take: its database ends one that takes longer."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from stores.replay.errors import ReplayError

_INSTRUCTIONS = 10_000
"""Of SQLite, between two looks at the clock."""
_CANCELLED = "57014"


class QueryLimit:
    """The time that is left of a query, of all of its statements together.

    Args:
        connection: of the query's transaction.
        seconds: that it has; None: no limit.
    """

    def __init__(self, connection: Connection, seconds: float | None) -> None:
        self._connection, self._seconds = connection, seconds
        self._until = time.monotonic() + (seconds or 0.0)

    def begin_statement(self) -> None:
        """Let PostgreSQL end the next statement when the time is over. Raises ReplayError."""
        if self._seconds is None:
            return
        left = self._until - time.monotonic()
        if left <= 0:
            raise self._error()
        if self._connection.dialect.name == "postgresql":
            self._connection.exec_driver_sql(
                f"SET LOCAL statement_timeout = {max(1, round(left * 1000))}"
            )

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Let SQLite end statements when the time is over, and say so of either database.

        Raises:
            ReplayError: the time is over.
        """
        if self._seconds is None:
            yield
            return
        driver: Any = self._connection.connection.dbapi_connection
        watched = self._connection.dialect.name == "sqlite"
        if watched:
            driver.set_progress_handler(lambda: time.monotonic() > self._until, _INSTRUCTIONS)
        try:
            yield
        except OperationalError as error:
            ended = getattr(error.orig, "sqlstate", None) == _CANCELLED
            if ended or str(error.orig) == "interrupted":
                raise self._error() from error
            raise
        finally:
            if watched:
                driver.set_progress_handler(None, 0)

    def _error(self) -> ReplayError:
        return ReplayError(
            f"the query took more than {self._seconds:g} s, and was ended: name topics, a time, "
            "streams, a field or a range of ids (after, through), so that less is read; "
            "`sequitur replay count` and `list` have no limit, and query_seconds is that of the "
            "server"
        )
