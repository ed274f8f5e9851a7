"""The lease of a connection by one attempt, and what may be executed on it."""

import asyncio
import re
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from sqlalchemy import Connection, Executable, TextClause, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from topology.model.printable import printable
from topology.ordered_commit import Grant

OVER = "the attempt is over, or was rolled back: its connection is not lent any more"
_ENDS = re.compile(
    r"(?:^|;)\s*(?:(?:begin|start|commit|end|rollback(?!\s+to)|abort)\b|prepare\s+transaction)",
    re.I,
)
"""What begins or ends a transaction."""
_NO_SQL = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\$(\w*)\$.*?\$\1\$", re.S)
"""Comments and texts in SQL."""
_AWAY = re.compile(r"53100|53300|57P|58|25006|SQLITE_(?:FULL|IOERR|CANTOPEN|READONLY)")
"""What no event can help: a disk is full or broken, there are too many connections, the server ends
or begins, or is one that only reads."""
CRASH = "57P02"
"""Another process of the server has crashed: none of this connection's doing."""
NO_LOCK = "55P03"
"""A lock was not to be had in time."""
_IDLE = "25P03"
"""A transaction that executed nothing for too long, of which others know nothing."""

Found = TypeVar("Found")


class DatabaseAway(ConnectionError):
    """The database cannot be reached: no event's doing.

    lost: a connection that was there has ended, which its own SQL may have done. ended: it has, be
    that as it may. undone: of a turn, that nothing of it is committed; else nobody knows.
    """

    undone = False

    def __init__(self, reason: str, *, lost: bool = False, ended: bool = False) -> None:
        super().__init__(reason)
        self.lost, self.ended = lost, ended


class BehindOlder(RuntimeError):
    """A statement has waited for too long for a lock that an older event has, which is right."""


class RolledBack(RuntimeError):
    """The attempt was rolled back: it can do nothing more on its connection."""


class Lease:
    """A connection, from an attempt's first statement until its turn.

    pid: of PostgreSQL's. notices: what that has said besides, by its codes. behind: whether what
    its last statement waited for was an older event's.
    """

    def __init__(self, grant: Grant) -> None:
        self.grant = grant
        self.connection: Connection | None = None
        self.pid: int | None = None
        self.notices: Collection[str] = ()
        self.failed: BaseException | None = None
        self.ended = self.behind = False
        self.running: asyncio.Future[Any] | None = None
        self.lock = asyncio.Lock()

    def interrupt(self) -> None:
        """End the statement that runs, if one does; in a thread."""
        driver: Any = self.connection and self.connection.connection.dbapi_connection
        cancel = getattr(driver, "cancel", None) or getattr(driver, "interrupt", None)
        if cancel is not None:
            cancel()


def checked_statement(statement: str | Executable) -> Executable:
    """A statement that can be run; text is SQL. Raises TypeError, ValueError."""
    sql = statement.text if isinstance(statement, TextClause) else statement
    if isinstance(sql, str) and _ENDS.search(_NO_SQL.sub("", sql)):
        raise ValueError(
            f"{printable(sql)}: the transaction is the ordering manager's, which commits at the "
            "event's turn; leave it out"
        )
    return text(statement) if isinstance(statement, str) else statement


def or_away(work: Callable[[], Found], notices: Collection[str] = ()) -> Found:
    """Do it. Raises DatabaseAway where the connection is gone, or none is to be had.

    Args:
        work: what is done.
        notices: see `Lease`.
    """
    try:
        return work()
    except DBAPIError as error:
        state = getattr(error.orig, "sqlstate", getattr(error.orig, "sqlite_errorname", ""))
        # Of a statement it would be the driver that refuses it, before it is sent.
        connecting = error.statement is None
        unsaid = (
            connecting and isinstance(error, OperationalError | InterfaceError) and state is None
        )
        gone = error.connection_invalidated and state != _IDLE
        if gone or unsaid or _AWAY.match(state or ""):
            lost = gone and state != CRASH and CRASH not in notices
            reason = printable(str(error.orig), 1000)
            raise DatabaseAway(reason, lost=lost, ended=gone) from error
        raise
