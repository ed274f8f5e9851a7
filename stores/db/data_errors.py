"""Whether a database refuses data, or is away: what is refused is refused again, however often."""

from typing import Any

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError

OF_DATA = (OverflowError, UnicodeError, ValueError, TypeError)
"""What drivers raise of their own, before the database has seen a value."""

_CLASSES = ("22", "23", "54")
"""PostgreSQL's codes: wrong data, broken constraints, and what is too large for an index."""
_OF_SQLITE = ("Could not decode to UTF-8", "string or blob too big", "Error binding")
"""How SQLite's driver begins what it says of values under other names."""


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
