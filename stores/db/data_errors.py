"""Whether a database refuses data, or is away: what is refused is refused again, however often."""

import sqlite3
from typing import Any

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    OperationalError,
    StatementError,
)

OF_DATA = (OverflowError, UnicodeError, ValueError, TypeError)
"""What drivers raise of their own, before the database has seen a value."""

_CLASSES = ("22", "23", "54")
"""PostgreSQL's codes: wrong data, broken constraints, and what is too large for an index."""
_OF_SQLITE = ("Could not decode to UTF-8", "string or blob too big", "Error binding")
"""How SQLite's driver begins what it says of values under other names."""
_PASSING = ("08", "25006", "40", "53", "55P03", "57P", "58")
"""PostgreSQL's: away, a server that only reads, in each other's way, out of resources, a lock not
to be had, shut down, and the system's own errors."""
_PASSING_OF_SQLITE = frozenset(
    (
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    )
)


def is_passing(error: DBAPIError) -> bool:
    """Whether the database is away, or others are in the way: the same may do later.

    What a statement asks for counts as its own doing: a time limit too, or a number too large.
    """
    if error.connection_invalidated:
        return True
    original: Any = error.orig
    if isinstance(original, sqlite3.Error):
        code = getattr(original, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        return code & 0xFF in _PASSING_OF_SQLITE
    state = getattr(original, "sqlstate", None)
    return state.startswith(_PASSING) if state else isinstance(error, OperationalError)


def is_of_data(error: BaseException) -> bool:
    """Whether an error is due to the values of a statement, rather than to the database's state.

    A broken constraint is: it may be another transaction's doing, so who sets data aside for it has
    to try it alone first. An error that is not known is taken for the database's.
    """
    if isinstance(error, DBAPIError):
        if error.connection_invalidated:
            return False
        if isinstance(error, DataError | IntegrityError):
            return True
        original: Any = error.orig
        code = getattr(original, "sqlstate", None)
        return code.startswith(_CLASSES) if code else str(original).startswith(_OF_SQLITE)
    return isinstance(error, (*OF_DATA, StatementError))
