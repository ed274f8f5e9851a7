"""One transaction of several databases, from its beginning to what becomes of each part."""

import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import Connection, TwoPhaseTransaction, event
from sqlalchemy.exc import SQLAlchemyError

from stores.two_phase.after_commit import forget, run_after_commit
from stores.two_phase.decision_log import Outcome, TwoPhaseError
from stores.two_phase.prepared import gid, is_gone, prepare

if TYPE_CHECKING:
    from stores.two_phase.coordinator import Coordinator

log = logging.getLogger(__name__)

_ALONE = (
    "two-phase commit: a connection's transaction was to end within the block, but the databases "
    "are committed or rolled back together; leave that to the block's end"
)
_FAILED = (
    "two-phase commit: a statement of the block failed, and its error was caught, or it ended a "
    "transaction itself; a database rolls back what it had then, so all do. Wrap what may fail in "
    "connection.begin_nested()"
)


class OutcomeUnknown(TwoPhaseError):
    """The database with the decisions went away while it committed: all is committed or nothing.

    What is prepared stays so, until recovery finds out. `transaction` is its id, for
    `Coordinator.outcome`.
    """

    def __init__(self, transaction: str, reason: BaseException) -> None:
        super().__init__(
            f"two-phase transaction {transaction}: the database with the decisions failed while it "
            f"committed ({reason}), so it is committed in all databases or in none. It is resolved "
            "as soon as that database answers; ask Coordinator.outcome before doing it again"
        )
        self.transaction = transaction


class RunningTransaction:
    """A transaction that has begun in all its databases; see `Coordinator.transaction`."""

    def __init__(self, coordinator: "Coordinator", names: tuple[str, ...]) -> None:
        for name in names:
            if name not in coordinator.participants:
                raise TwoPhaseError(
                    f"two-phase commit: {name!r} is not among its participants: "
                    f"{', '.join(coordinator.participants)}; give its engine to the Coordinator"
                )
        self.id = uuid4().hex
        self.at = time.monotonic()
        self._coordinator = coordinator
        self._step = coordinator.step
        self._parts: dict[str, tuple[Connection, TwoPhaseTransaction]] = {}
        self._committing = False
        self._decision = coordinator.decisions.connect()
        self._driver: Any = self._decision.connection.driver_connection
        try:
            # First of all: from now on, and until it is decided, recovery leaves this one alone.
            self._root = self._decision.begin()
            event.listen(self._decision, "commit", self._refuse)
            coordinator.decisions.write(self._decision, self.id, names)
            event.listen(self._decision, "before_cursor_execute", self._check_begun)
            coordinator.began(self)
            self._step("begun")
            for name in names:
                self._join(name)
            self._step("joined")
        except BaseException:
            self.rollback()
            raise

    @property
    def connections(self) -> tuple[Connection, ...]:
        """That of the decisions, and those of the participants, in the order of their names."""
        return self._decision, *(connection for connection, _ in self._parts.values())

    @property
    def is_undecided(self) -> bool:
        """Whether the database of the decisions still has it open."""
        gone = self._decision.closed or self._decision.invalidated
        return self._root.is_active and not gone and self._has_begun()

    def _has_begun(self) -> bool:
        """Whether the transaction with the line is open: SQLite rolls back by itself where the disk
        is full, say; PostgreSQL refuses what comes next then."""
        try:
            return bool(getattr(self._driver, "in_transaction", True))
        except sqlite3.ProgrammingError:  # it is closed
            return False

    def _join(self, name: str) -> None:
        connection = self._coordinator.participants[name].connect()
        try:
            transaction = connection.begin_twophase(
                gid(self._coordinator.decisions.id, self.id, name)
            )
        except BaseException:
            connection.close()
            raise
        event.listen(connection, "commit_twophase", self._refuse)
        forget(connection)
        self._parts[name] = connection, transaction

    def commit(self) -> None:
        """Commit in all databases. Raises OutcomeUnknown, TwoPhaseError and databases' errors."""
        try:
            self._step("worked")
            self._check_active()
            for name, (_, transaction) in self._parts.items():
                prepare(name, transaction)
                self._step(f"prepared {name}")
        except BaseException:
            if any(connection.invalidated for connection, _ in self._parts.values()):
                self._coordinator.in_doubt()  # it may have prepared, and its answer was lost
            self.rollback()
            raise
        self._committing = True
        self._coordinator.deciding(self)
        try:
            self._root.commit()
        except BaseException as error:
            self._settle(error)
        self._decision.close()
        self._step("decided")
        done = [self._commit_part(name) for name in list(self._parts)]
        if all(done):
            self._coordinator.ended(self.id)
        self._step("ended")

    def rollback(self) -> None:
        """Roll back in all databases. Raises nothing: what cannot be reached is left in doubt."""
        for name in list(self._parts):
            self._end_part(name, lambda transaction: transaction.rollback())
        self._coordinator.deciding(self)
        with suppress(SQLAlchemyError):
            self._decision.rollback()
        self._decision.close()

    def _refuse(self, *_: object) -> None:
        """Before a commit: of one database it would be too early."""
        if not self._committing:
            raise TwoPhaseError(_ALONE)

    def _check_begun(self, *_: object) -> None:
        """Before a statement, which would begin another transaction, or be one by itself."""
        if not self._has_begun():
            raise TwoPhaseError(_FAILED)

    def _check_active(self) -> None:
        for transaction in (self._root, *(part for _, part in self._parts.values())):
            if not transaction.is_active:
                raise TwoPhaseError(_ALONE)
        self._check_begun()
        if not all(map(self._is_sound, self.connections)):
            raise TwoPhaseError(_FAILED)

    @staticmethod
    def _is_sound(connection: Connection) -> bool:
        """Whether its commit would be one: PostgreSQL rolls back instead behind a failed statement,
        and says so to nobody."""
        if connection.closed or connection.invalidated:
            return True  # what comes next raises
        driver: Any = connection.connection.driver_connection
        status = getattr(getattr(driver, "info", None), "transaction_status", None)
        return getattr(status, "name", "INTRANS") == "INTRANS"  # other drivers do not tell

    def _settle(self, error: BaseException) -> None:
        """Find out whether a commit that failed has taken place; returns if it has."""
        self._decision.invalidate()
        self._decision.close()
        outcome: Outcome = "open"
        with suppress(SQLAlchemyError):
            outcome = self._coordinator.outcome(self.id)
        if outcome == "committed":
            return
        if outcome == "aborted":
            self.rollback()
            raise error
        self._coordinator.in_doubt()
        for connection, _ in self._parts.values():
            connection.invalidate()  # it must not be rolled back on its way into the pool
            connection.close()
        self._parts.clear()
        raise OutcomeUnknown(self.id, error) from error

    def _commit_part(self, name: str) -> bool:
        connection, _ = self._parts[name]

        def end(transaction: TwoPhaseTransaction) -> None:
            transaction.commit()
            with suppress(SQLAlchemyError):
                run_after_commit(connection)

        done = self._end_part(name, end)
        self._step(f"committed {name}")
        return done

    def _end_part(self, name: str, end: Callable[[TwoPhaseTransaction], None]) -> bool:
        """End the part of a participant; False where it is left in doubt."""
        connection, transaction = self._parts.pop(name)
        try:
            end(transaction)
            return True
        except Exception as error:
            connection.invalidate()
            if is_gone(error):  # it has been resolved
                return True
            self._coordinator.in_doubt()
            log.warning("two-phase transaction %s is in doubt in %s: %s", self.id, name, error)
            return False
        finally:
            connection.close()
