"""Prepared transactions of PostgreSQL: how ours are named, made, found and ended."""

import re
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, TwoPhaseTransaction, text
from sqlalchemy.exc import DBAPIError, NotSupportedError

from stores.two_phase.decision_log import TwoPhaseError

_GID = re.compile(r"sequitur:(?P<log>[0-9a-f]{32}):(?P<transaction>[0-9a-f]{32}):(?P<name>.+)")
_FIND = text(
    "SELECT gid, extract(epoch FROM prepared), extract(epoch FROM now() - prepared) "
    "FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, 'sequitur:') "
    "ORDER BY prepared, gid"
)
_GONE, _NOT_NOW = "42704", "55000"
_FULL = "53200"
_REMEDIES = {
    _NOT_NOW: "set max_prepared_transactions in its postgresql.conf to at least the number of "
    "transactions at a time, and restart it",
    _FULL: "raise max_prepared_transactions in its postgresql.conf, or see with "
    "sequitur two-phase list what is in doubt",
}


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A prepared transaction of ours in a participant's database.

    log: the id of the decisions that it belongs to. at: seconds since 1970. age: seconds.
    """

    participant: str
    gid: str
    log: str
    transaction: str
    at: float
    age: float


def gid(log: str, transaction: str, name: str) -> str:
    """The name of a participant's part: below 200 bytes, and unlike what drivers make of theirs."""
    return f"sequitur:{log}:{transaction}:{name}"


def prepared(participant: str, engine: Engine) -> list[PreparedTransaction]:
    """Our prepared transactions in a participant's database, the oldest first."""
    with engine.connect() as connection:
        rows = connection.execute(_FIND).all()
    found = ((_GID.fullmatch(row[0]), row) for row in rows)
    return [
        PreparedTransaction(
            participant, name, match["log"], match["transaction"], float(at), float(age)
        )
        for match, (name, at, age) in found
        if match
    ]


def prepare(name: str, transaction: TwoPhaseTransaction) -> None:
    """Prepare a participant's part. Raises TwoPhaseError where its database is not set up so."""
    try:
        transaction.prepare()
    except DBAPIError as error:
        # The driver takes the code away where the server is not set up.
        disabled = isinstance(error, NotSupportedError) and not state(error)
        remedy = _REMEDIES.get(_NOT_NOW if disabled else state(error))
        if remedy is None:
            raise
        raise TwoPhaseError(
            f"participant {name!r} cannot prepare a transaction "
            f"({str(error.orig).splitlines()[0]}); {remedy}"
        ) from error


def end(engine: Engine, gid: str, *, commit: bool) -> bool:
    """Commit or roll back a prepared transaction; False if another one is just ending it."""
    with engine.connect() as connection:
        try:
            _end(connection, gid, commit=commit)
        except Exception as error:
            connection.invalidate()
            if state(error) == _NOT_NOW:
                return False
            if not is_gone(error):
                raise
    return True


def _end(connection: Connection, gid: str, *, commit: bool) -> None:
    if commit:
        connection.commit_prepared(gid, recover=True)
    else:
        connection.rollback_prepared(gid, recover=True)


def is_gone(error: BaseException) -> bool:
    """Whether a prepared transaction could not be ended since it is not there any more."""
    return state(error) == _GONE


def state(error: BaseException) -> str:
    """PostgreSQL's code of an error, empty if it has none."""
    original = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(original, "sqlstate", None) or getattr(original, "pgcode", None) or "")
