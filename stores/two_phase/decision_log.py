"""The decisions of two-phase transactions, in a database of SQLite or PostgreSQL.

A transaction's line is written when it begins, and committed when it is decided: a line that is
there says that the transaction is committed, and none that it is not. While it may still be decided
its line is neither: who tries to write it too has to wait. So recovery sees that it must not
interfere yet, and once it could have written the line itself, that nobody else will.
"""

import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

import orjson
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    Table,
    Text,
    exists,
    inspect,
    literal,
    select,
    text,
)
from sqlalchemy.exc import OperationalError

from stores.db.advisory_locks import AdvisoryLock, lock_until_commit
from stores.db.dialect import begin_writing
from stores.db.missing_tables import create_missing

LAYOUT = 1
BUSY = 200
"""Milliseconds that one who asks for an outcome waits for one who may still decide it."""

Outcome = Literal["committed", "aborted", "open"]
"""open: it may still be decided."""

_METADATA = MetaData()
LOG = Table(
    "sequitur_two_phase",
    _METADATA,
    Column("layout", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
)
DECISIONS = Table(
    "sequitur_decisions",
    _METADATA,
    Column("transaction", Text, primary_key=True),
    Column("participants", Text, nullable=False),
    Column("begun_at", Float(53), nullable=False),
)
DAMAGED = "?"
"""Stands for the participants of a line that cannot be read; no participant has such a name."""
_SAFE = """\
 WHERE CASE WHEN current_setting('synchronous_commit') = 'off'
  THEN set_config('synchronous_commit', 'on', true) = 'on' ELSE TRUE END"""
_WRITE = """\
INSERT INTO sequitur_decisions ("transaction", participants, begun_at)
SELECT CAST(:transaction AS text), CAST(:participants AS text), :begun_at"""
_FIND = 'SELECT 1 FROM sequitur_decisions WHERE "transaction" = ?'
_LINES = 'SELECT "transaction", participants, begun_at FROM sequitur_decisions'
_FORGET = 'DELETE FROM sequitur_decisions WHERE "transaction" = ANY (CAST(:gone AS text[]))'
_SQLITE_FORGET = 'DELETE FROM sequitur_decisions WHERE "transaction" = ?'
_LOCKED = "55P03"


class TwoPhaseError(RuntimeError):
    """A transaction of several databases cannot be done; the text says why, and the remedy."""


@dataclass(frozen=True, slots=True)
class Decision:
    """That a transaction is committed. begun_at: seconds since 1970, by its owner's clock."""

    transaction: str
    participants: list[str]
    begun_at: float


def separate_engine(engine: Engine) -> Engine:
    """An engine for the same database, with connections of its own."""
    return Engine(engine.pool.recreate(), engine.dialect, engine.url)


class DecisionLog:
    """The decisions that are kept in a database.

    Args:
        engine: the database, PostgreSQL or SQLite.
        create: make the tables that are missing; else a database without decisions is refused.

    Attributes:
        id: tells it from all others. The prepared transactions in other databases bear it.

    Raises:
        TwoPhaseError: the database cannot keep decisions, or has none, or of another layout.
        SQLAlchemyError: what the database raises.
    """

    def __init__(self, engine: Engine, *, create: bool = True) -> None:
        if engine.dialect.name not in ("sqlite", "postgresql"):
            raise TwoPhaseError(
                f"two-phase commit: a database of the kind {engine.dialect.name!r} cannot keep the "
                "decisions; use PostgreSQL or SQLite"
            )
        self.engine = engine
        self._sqlite = engine.dialect.name == "sqlite"
        self._write = text(_WRITE if self._sqlite else _WRITE + _SAFE)
        with engine.begin() as connection:
            self.id = self._open(connection, create)

    def _open(self, connection: Connection, create: bool) -> str:
        id = self._find_id(connection)
        if id is None and not create:
            raise TwoPhaseError(
                f"two-phase commit: {self.engine.url!r} holds no decisions; name the database that "
                "producers give their Coordinator as the one that decides"
            )
        if id is None or not inspect(connection).has_table(DECISIONS.name):
            # Before any table: outside of a transaction SQLite commits each of them by itself.
            begin_writing(connection)
            lock_until_commit(connection, AdvisoryLock.TWO_PHASE)
            self._find_id(connection)  # another layout's may have come meanwhile
        create_missing(connection, _METADATA, AdvisoryLock.TWO_PHASE)
        if id is None:
            line = select(literal(LAYOUT), literal(uuid4().hex)).where(~exists(select(LOG)))
            connection.execute(LOG.insert().from_select(["layout", "id"], line))
            id = self._find_id(connection)
            assert id is not None
        return id

    def _find_id(self, connection: Connection) -> str | None:
        """The id of this log, if it has one. Raises TwoPhaseError if its layout is another."""
        if not inspect(connection).has_table(LOG.name):
            return None
        found = connection.execute(select(LOG.c.layout, LOG.c.id)).one_or_none()
        if found is None:
            return None
        if found.layout != LAYOUT:
            raise TwoPhaseError(
                f"two-phase commit: the decisions in {self.engine.url!r} have layout "
                f"{found.layout}, this version works with {LAYOUT}; use the version that made them"
            )
        return str(found.id)

    def connect(self) -> Connection:
        """A connection on which a decision outlives a loss of power."""
        connection = self.engine.connect()
        if self._sqlite:
            # Of the driver, since SQLAlchemy may begin the transaction first.
            driver: Any = connection.connection.driver_connection
            driver.execute("PRAGMA synchronous=FULL")
        return connection

    def write(self, connection: Connection, transaction: str, participants: Iterable[str]) -> None:
        """Write a transaction's line, in the transaction of `connection`, which decides by it."""
        line = {
            "transaction": transaction,
            "participants": orjson.dumps(sorted(participants)).decode(),
            "begun_at": time.time(),
        }
        connection.execute(self._write, line)

    def outcome(
        self, transaction: str, undecided: Callable[[], Collection[str]] = tuple
    ) -> Outcome:
        """What became of a transaction that has begun; one that is aborted stays so.

        undecided: gives the caller's own transactions that have begun and are not decided now.
        """
        if self._sqlite:
            return self._sqlite_outcome(transaction, undecided)
        with self._alone() as connection:
            connection.execution_options(isolation_level="READ COMMITTED")
            connection.execute(text(f"SET LOCAL lock_timeout = {BUSY}"))
            line = {"transaction": transaction, "participants": "[]", "begun_at": 0.0}
            tried = text(f"{_WRITE} ON CONFLICT DO NOTHING")
            try:
                return "aborted" if connection.execute(tried, line).rowcount == 1 else "committed"
            except OperationalError as error:
                if getattr(error.orig, "sqlstate", None) == _LOCKED:
                    return "open"
                raise
            finally:
                connection.rollback()

    def _sqlite_outcome(
        self, transaction: str, undecided: Callable[[], Collection[str]]
    ) -> Outcome:
        """One at a time has the right to write, and who has it knows that no other one decides.

        It must do to know that it is the caller himself: he may be waiting for what is in doubt.
        """
        with self._impatient() as driver:
            own = undecided()
            if transaction in own:
                return "open"
            if driver.execute(_FIND, (transaction,)).fetchone() is not None:
                return "committed"
            if own:
                return "aborted"
            try:
                driver.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    return "open"
                raise
            found = driver.execute(_FIND, (transaction,)).fetchone()
            driver.rollback()
        return "aborted" if found is None else "committed"

    @contextmanager
    def _alone(self) -> Iterator[Connection]:
        own = separate_engine(self.engine)
        try:
            with own.connect() as connection:
                yield connection
        finally:
            own.dispose()

    @contextmanager
    def _impatient(self) -> Iterator[Any]:
        """A connection of sqlite3, which does not wait for long; errors are SQLAlchemy's."""
        own = separate_engine(self.engine)
        try:
            with closing(own.raw_connection()) as raw:
                driver: Any = raw.driver_connection
                driver.execute(f"PRAGMA busy_timeout={BUSY}")
                yield driver
        except sqlite3.Error as error:
            raise OperationalError(None, None, error) from error
        finally:
            own.dispose()

    def lines(self) -> list[Decision]:
        """The lines of all transactions that are committed, and not deleted yet."""
        if self._sqlite:
            with self._impatient() as driver:
                found = driver.execute(_LINES).fetchall()
        else:
            with self._alone() as connection:
                found = [tuple(row) for row in connection.execute(text(_LINES))]
        return [_line(*row) for row in found]

    def forget(self, transactions: Iterable[str]) -> bool:
        """Delete the lines of transactions that all their participants have committed.

        False where others who write are in the way: recovery does it later.
        """
        gone = [(transaction,) for transaction in transactions]
        if not self._sqlite:
            with self._alone() as connection, connection.begin():
                connection.execute(text(_FORGET), {"gone": [name for (name,) in gone]})
            return True
        with self._impatient() as driver:
            try:
                driver.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    return False
                raise
            driver.executemany(_SQLITE_FORGET, gone)
            driver.commit()
        return True


def _line(transaction: Any, names: Any, begun_at: Any) -> Decision:
    """A line as it is stored; one that was damaged is of a participant that nobody has.

    So it is never taken for done with, and stays for an operator to look at.
    """
    try:
        participants = [str(name) for name in list(orjson.loads(names))]
    except (orjson.JSONDecodeError, TypeError):
        participants = [DAMAGED]
    good = isinstance(transaction, str) and isinstance(begun_at, float | int)
    return Decision(
        str(transaction), participants if good else [DAMAGED], begun_at if good else 0.0
    )
