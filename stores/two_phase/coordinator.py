"""A transaction of several databases, by two-phase commit: committed in all of them, or in none.

    coordinator = Coordinator(shop_engine, {"log": log_engine})
    with coordinator.transaction() as (shop, log):
        shop.execute(...)
        outbox.capture(log, "orders", order, "Placed", {"total": 12})

One database keeps the decisions, and takes part itself as the last one: what it commits includes
the line that says that all is committed (see `stores.two_phase.decision_log`). So it need not be
able to prepare, and may be SQLite. The others are PostgreSQL: their parts are prepared first, and
committed once it is decided. What a crash leaves prepared is in doubt until `recover` looks up what
was decided; without a decision it is rolled back (presumed abort)."""

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from stores.two_phase.decision_log import DecisionLog, Outcome, TwoPhaseError, separate_engine
from stores.two_phase.recovery import Recovery, recover
from stores.two_phase.running_transaction import RunningTransaction

log = logging.getLogger(__name__)

FORGET = 100
"""Transactions whose decisions are deleted together, once they are no longer needed."""
AGAIN = 1.0
"""Seconds between attempts to resolve what is in doubt."""
WAITS = 2.0
"""Seconds after which a transaction may be waiting for what another producer left in doubt."""
LOOK = 30.0
"""Seconds after which it is looked in any case: somebody else may be waiting for that."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,60}")


class Coordinator:
    """Makes transactions of several databases.

    What an earlier process left in doubt is resolved when the coordinator is made, as far as
    databases can be reached. A thread resolves the rest, and whatever comes to be in doubt later.
    Any number of processes and threads may have a coordinator over the same databases.

    Args:
        decisions: the database of the decisions, PostgreSQL or SQLite; it takes part in every
            transaction.
        participants: the others by name, PostgreSQL with max_prepared_transactions above 0. The
            names are stored with the decisions: keep them.
        step: called between any two steps with the step that was done last, for tests.
    """

    def __init__(
        self,
        decisions: Engine,
        participants: Mapping[str, Engine],
        *,
        step: Callable[[str], None] = lambda done: None,
    ) -> None:
        self.participants = dict(participants)
        check_participants(self.participants)
        self.decisions = DecisionLog(decisions)
        self.step = step
        self._lock = Lock()
        self._ended: list[str] = []
        self._doubt = False
        self._begun: dict[str, RunningTransaction] = {}
        self._watcher: Thread | None = None
        self._closed = Event()
        self.recover()

    @contextmanager
    def transaction(self, *names: str) -> Iterator[tuple[Connection, ...]]:
        """A transaction of the database of the decisions and of participants.

        It commits at the end of the block and rolls back if the block raises. Do not end the
        transactions of the connections yourself.

        Args:
            names: of the participants, by default all.

        Returns:
            A context manager that gives the connections: that of the decisions, then those of the
            participants in the order of the names.

        Raises:
            OutcomeUnknown: all is committed, or nothing; ask `outcome` once the database answers.
            TwoPhaseError: a participant cannot take part; nothing is committed.
            SQLAlchemyError: what a database raises; nothing is committed.
        """
        running = RunningTransaction(self, names or tuple(self.participants))
        try:
            yield running.connections
        except BaseException:
            running.rollback()
            raise
        running.commit()

    def recover(self, age: float = 0.0) -> Recovery:
        """Resolve what is in doubt, as far as databases can be reached and nobody else is at it.

        It raises what the database of the decisions raises.

        Args:
            age: seconds; what was prepared more recently is left alone.
        """
        found = self._recover(age)
        if found.open or found.unreachable:
            self.in_doubt()
        return found

    def _recover(self, age: float) -> Recovery:
        # Connections of its own: those of the engines may all be waiting for what is in doubt.
        engines = {name: separate_engine(engine) for name, engine in self.participants.items()}
        try:
            found = recover(self.decisions, engines, age=age, undecided=self._undecided)
        finally:
            for engine in engines.values():
                engine.dispose()
        for line in found.report():
            log.warning("%s", line)
        return found

    def outcome(self, transaction: str) -> Outcome:
        """Say what became of a transaction. It raises what the database of the decisions raises.

        Args:
            transaction: the transaction's id.
        """
        return self.decisions.outcome(transaction)

    def close(self) -> None:
        """Stop the thread, and delete the decisions that nobody needs any more.

        The engines stay open. Raises what the database of the decisions raises.
        """
        self._closed.set()
        with self._lock:
            watcher = self._watcher
            ended, self._ended = self._ended, []
        if watcher is not None:
            watcher.join()
        if ended:
            self.decisions.forget(ended)

    def began(self, running: RunningTransaction) -> None:
        """Note that a transaction's line is written, and that it may be decided.

        Args:
            running: the transaction.
        """
        with self._lock:
            self._begun[running.id] = running
            self._watch()

    def deciding(self, running: RunningTransaction) -> None:
        """Note that a transaction is about to be decided.

        Args:
            running: the transaction.
        """
        with self._lock:
            self._begun.pop(running.id, None)

    def _undecided(self) -> list[str]:
        with self._lock:
            return [running.id for running in self._begun.values() if running.is_undecided]

    def in_doubt(self) -> None:
        """Note that something is left to be resolved."""
        with self._lock:
            self._doubt = True
            self._watch()

    def _watch(self) -> None:
        if self._watcher is None and not self._closed.is_set():
            self._watcher = Thread(target=self._watching, name="two-phase", daemon=True)
            self._watcher.start()

    def _watching(self) -> None:
        """Resolve what is in doubt, what a transaction here seems to be waiting for, and now and
        then what others have left."""
        looked = time.monotonic()
        while not self._closed.wait(AGAIN):
            with self._lock:
                now = time.monotonic()
                oldest = min((running.at for running in self._begun.values()), default=now)
                if not self._doubt and now - oldest < WAITS and now - looked < LOOK:
                    continue
                self._doubt, looked = False, now
            try:
                found = self._recover(AGAIN)
                left = bool(found.open or found.unreachable)
            except Exception as error:
                log.warning("what is in doubt cannot be resolved for now: %s", error)
                left = True
            self._doubt |= left

    def ended(self, transaction: str) -> None:
        """Note that all participants have committed a transaction.

        Args:
            transaction: the transaction's id.
        """
        with self._lock:
            self._ended.append(transaction)
            if len(self._ended) < FORGET:
                return
            ended, self._ended = self._ended, []
        with suppress(SQLAlchemyError):  # recovery will
            if not self.decisions.forget(ended):
                self._ended += ended


def check_participants(participants: Mapping[str, Engine]) -> None:
    """Check names and kinds of databases, without connecting. Raises TwoPhaseError.

    Args:
        participants: see `Coordinator`.
    """
    for name, engine in participants.items():
        if not _NAME.fullmatch(name):
            raise TwoPhaseError(
                f"two-phase commit: participant {name!r} is not of up to 60 letters A-Z a-z, "
                "digits and _ . -; give it another name"
            )
        if engine.dialect.name != "postgresql":
            raise TwoPhaseError(
                f"two-phase commit: participant {name!r} is a database of the kind "
                f"{engine.dialect.name!r}, which cannot prepare a transaction. One such database "
                "can take part: as the one that keeps the decisions, Coordinator(that_engine, …). "
                "Two SQLite databases: put the tables of both into one file"
            )
