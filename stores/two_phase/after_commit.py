"""What to do on a participant's connection once its part of a transaction is committed."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from stores.db.statement import Statement

_KEY = "sequitur_after_commit"


def after_commit(connection: Connection, statement: Statement, values: Mapping[str, Any]) -> None:
    """Have the coordinator run `statement` after the commit; once, however often it is asked for.

    It is no part of the transaction: what it does is lost in a crash.
    """
    connection.info.setdefault(_KEY, {})[statement.named] = statement, values


def forget(connection: Connection) -> None:
    """Drop what was asked for: for a transaction that begins, or is rolled back."""
    connection.info.pop(_KEY, None)


def run_after_commit(connection: Connection) -> None:
    """Do what was asked for."""
    asked = connection.info.pop(_KEY, {})
    if asked:
        with connection.begin():
            for statement, values in asked.values():
                connection.execute(statement.clause, values)
