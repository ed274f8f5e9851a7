"""Database connections that a partition lends to attempts: committed at the turn, else rolled back.

A transaction is open from an attempt's first statement until its event's turn. Who is later gives
way to who is older, for a row's lock as for a place: so no two wait for each other.
"""

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple

from aiokafka import TopicPartition
from mode import get_logger
from sqlalchemy import Executable, Result
from sqlalchemy.exc import DBAPIError

from stores.db.turn_rows import TakenOver, TurnRows
from stores.view_state.table import TableFenced
from topology.faust.worker.ordered.lease import (
    NO_LOCK,
    OVER,
    BehindOlder,
    DatabaseAway,
    Lease,
    RolledBack,
    checked_statement,
)
from topology.faust.worker.ordered.lent_database import LentDatabase
from topology.model.errors import described
from topology.model.printable import printable
from topology.ordered_commit import Grant

logger = get_logger(__name__)

CONFLICT = 0.1
"""Seconds that an attempt waits for a lock or a place before later ones are asked to give way."""
LOST = 10
"""So many attempts of an event may lose a connection that was there before they count as failed."""
ENDING = 5.0
"""Seconds that connections have to end in when a partition stops."""


class Refused(NamedTuple):
    """A turn that is not committed. away: as its connection was gone, which is not its doing."""

    grant: Grant
    away: bool = False


class LentConnections:
    """The connections of a partition: at most as many as the view has workers; in SQLite one.

    Args:
        url: the database, as `stores.db.engines.open_engine` takes it.
        view: `topology.view`.
        source: the partition.
        workers: of the view.

    Attributes:
        committed: offset → encoded effects of what is committed here and not yet in Kafka.
        give_way: has the first grant rolled back for the sake of the second.
        counts: whether what an attempt does still counts.
        away: what the database said last, while it is away.
        losses: the offset of an event, and whether it was at its turn → how many of its attempts
            have lost their connection.
    """

    def __init__(self, url: str, view: str, source: TopicPartition, workers: int) -> None:
        self._view = view
        owner = uuid.uuid4().bytes
        partition = f"{view}/{source.topic}/{source.partition}"
        self._database = LentDatabase(url, view, workers, partition, owner)
        self._rows = TurnRows(view, source.topic, source.partition, owner)
        self._leases: dict[int, Lease] = {}
        self._waiting: dict[int, Grant] = {}
        self._open = 0
        self._freed = asyncio.Event()
        self._looking = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()
        self._obsolete: set[int] = set()
        self._closed = False
        self.committed: dict[int, bytes] = {}
        self.away: str | None = None
        self.losses: dict[tuple[int, bool], int] = {}
        self.give_way: Callable[[Grant, Grant], None] = lambda holder, older: None
        self.counts: Callable[[Grant], bool] = lambda grant: True

    async def open(self, is_done: Callable[[int], bool]) -> None:
        """Take the partition over, and learn what is committed and not in Kafka.

        Raises:
            DatabaseAway: try again later.
        """
        try:
            await self._database.end_former()
            self.committed = await self._database.in_transaction(
                lambda connection: self._rows.take_over(connection, is_done)
            )
        except DBAPIError as error:
            raise DatabaseAway(printable(str(error.orig), 1000)) from error

    async def forget_log(self) -> None:
        """The partition's log is not there any more."""
        self.committed = {}
        self.losses.clear()
        await self._database.in_transaction(self._rows.clear)

    async def execute(
        self, grant: Grant, statement: str | Executable, parameters: Any = None
    ) -> Result[Any]:
        """Run a statement in the attempt's transaction; all its rows are read."""
        run = checked_statement(statement)
        if self._closed or not self.counts(grant):
            raise RolledBack(OVER)
        lease = await self._leased(grant)
        async with lease.lock:
            self._check(lease)
            if lease.running is not None and not lease.running.done():
                # A statement whose awaiting was cancelled goes on in its thread.
                await asyncio.wait([lease.running])
                self._check(lease)
            running = self._database.executed(lease, run, parameters)
            lease.running, lease.behind = running, False
            try:
                while not (await asyncio.wait([running], timeout=CONFLICT))[0]:
                    await self._make_way(lease)
                found = running.result()
            except BaseException as error:
                # Even if the handler goes on: its transaction is not what it takes it for.
                self._failed(lease, error)
                raise
            self.away = None
            return found

    def check(self, grant: Grant) -> None:
        """Raise what has failed of an attempt's SQL, whatever its handler made of it."""
        lease = self._leases.get(grant.number)
        if lease is not None:
            self._check(lease)
            if lease.lock.locked():
                raise RuntimeError("the handler ended while a statement ran: await each of them")

    def cause(self, grant: Grant, error: BaseException) -> BaseException:
        """Why an attempt failed: its database, if that was away, whatever its handler raised."""
        lease = self._leases.get(grant.number)
        failed = None if lease is None else lease.failed
        if isinstance(failed, DatabaseAway) and isinstance(error, Exception):
            return failed
        state = getattr(getattr(failed, "orig", None), "sqlstate", None)
        if lease is not None and lease.behind and state == NO_LOCK and isinstance(error, Exception):
            return BehindOlder(str(failed))
        return error

    async def savepoint(self, grant: Grant) -> Callable[[], Coroutine[Any, Any, None]]:
        """Returns what takes the transaction back to this point, also after a failure."""
        await self.execute(grant, "SAVEPOINT sequitur_event")

        async def back() -> None:
            lease = self._leases.get(grant.number)
            if lease is None or lease.ended:
                raise RolledBack("the attempt was rolled back")
            lease.failed = None
            await self.execute(grant, "ROLLBACK TO SAVEPOINT sequitur_event")

        return back

    def lost(self, grant: Grant, *, at_turn: bool = False) -> bool:
        """An attempt has lost its connection; whether that has happened to its event too often."""
        key = grant.offset, at_turn
        self.losses[key] = self.losses.get(key, 0) + 1
        return self.losses[key] > LOST

    def forgive(self, offset: int) -> None:
        """An event is done, or is tried anew: what it has lost does not count any more."""
        for at_turn in (False, True):
            self.losses.pop((offset, at_turn), None)

    def release(self, grant: Grant) -> None:
        """Roll an attempt's transaction back; its connection is free soon after."""
        lease = self._leases.pop(grant.number, None)
        if lease is not None:
            lease.ended = True
            if lease.connection is not None or lease.running is not None:
                task = asyncio.create_task(self._end(lease))
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)

    async def commit(
        self, turns: Sequence[Grant], effects: Callable[[Grant], bytes]
    ) -> Refused | None:
        """Commit the transactions of turns, in this order, each with a row of what it puts out.

        Args:
            turns: of one unit. Where one without SQL is before one with it, its effects are kept
                too: others may stand on them.
            effects: of a grant, encoded.

        Returns:
            What was not committed, None if all is. It is rolled back, and none behind it is
            committed.

        Raises:
            DatabaseAway: what is committed is known when the partition is opened again.
            TableFenced: the partition is somebody else's.
        """
        waiting: list[Grant] = []
        for grant in turns:
            if grant.offset in self.committed:
                continue
            lease = self._leases.get(grant.number)
            waiting.append(grant)
            if lease is None or lease.connection is None:
                continue
            if self.losses.get((grant.offset, True), 0) > LOST:
                # What a commit executes may be what ends the connection, too.
                logger.warning(
                    "view %s: offset %d is not committed: too often its commit lost the connection",
                    self._view, grant.offset,
                )  # fmt: skip
                self.release(grant)
                return Refused(grant)
            made = {each.offset: effects(each) for each in waiting}
            lease.running = self._database.committed(
                lease, partial(self._rows.add, effects=made, obsolete=self._obsolete)
            )
            try:
                # Whoever is cancelled here leaves the thread to it: the lease ends behind that.
                await asyncio.shield(lease.running)
            except DatabaseAway as error:
                if error.undone:
                    # Its connection was gone before its turn, as when the server has crashed.
                    logger.warning("view %s: the database is away: %s", self._view, error)
                    self._failed(lease, error)
                    self.release(grant)
                    return Refused(grant, away=True)
                if error.lost:
                    self.lost(grant, at_turn=True)
                raise
            except TakenOver as error:
                # Taking the partition back at once, the two would take turns.
                raise TableFenced(str(error)) from error
            except Exception as error:
                logger.warning(
                    "view %s: the database refuses to commit offset %d: %s",
                    self._view, grant.offset, printable(described(error), 1000),
                )  # fmt: skip
                self.release(grant)
                return Refused(grant)
            self.committed.update(made)
            waiting, self._obsolete = [], set()
            self.release(grant)
        return None

    def passed(self, turns: Sequence[Grant]) -> None:
        """Kafka has what these turns put out."""
        for grant in turns:
            if self.committed.pop(grant.offset, None) is not None:
                self._obsolete.add(grant.offset)

    async def close(self) -> None:
        """Roll everything back, and let the connections go, within ENDING seconds."""
        self._closed = True
        for lease in list(self._leases.values()):
            self.release(lease.grant)
        self._freed.set()
        if self._ending:
            await asyncio.wait(self._ending, timeout=ENDING)
        await self._database.close()

    # -- places

    async def _leased(self, grant: Grant) -> Lease:
        lease = self._leases.get(grant.number)
        if lease is None:
            lease = self._leases[grant.number] = Lease(grant)
        if lease.connection is not None or lease.lock.locked():
            return lease
        async with lease.lock:
            self._waiting[grant.number] = grant
            try:
                while self._open >= self._database.most or self._first_waiting() is not grant:
                    self._freed.clear()
                    try:
                        await asyncio.wait_for(self._freed.wait(), CONFLICT)
                    except TimeoutError:
                        self._claim_place(grant)
                    self._check(lease)
            finally:
                del self._waiting[grant.number]
                self._freed.set()
            self._check(lease)
            self._open += 1
            lease.running = self._database.begun(lease)
            try:
                await asyncio.shield(lease.running)
            except BaseException as error:
                if isinstance(error, DatabaseAway):
                    error.lost = False  # nothing of the attempt's was executed on it
                self._failed(lease, error)
                raise
        return lease

    def _failed(self, lease: Lease, error: BaseException) -> None:
        lease.failed = error
        if isinstance(error, DatabaseAway):
            self.away = str(error)

    def _first_waiting(self) -> Grant:
        return min(self._waiting.values(), key=lambda grant: grant.offset)

    def _claim_place(self, grant: Grant) -> None:
        holders = [lease for lease in self._leases.values() if lease.connection is not None]
        if self._first_waiting() is grant and holders:
            self.give_way(max(holders, key=lambda lease: lease.grant.offset).grant, grant)

    async def _make_way(self, lease: Lease) -> None:
        """Have those give way that are later, and hold a lock that this one's statement needs."""
        if lease.pid is None:
            return
        try:
            async with self._looking:
                pids = await self._database.blockers(lease.pid)
        except DatabaseAway:
            return
        others = [other for other in list(self._leases.values()) if other.pid in pids]
        lease.behind = any(other.grant.offset < lease.grant.offset for other in others)
        for other in others:
            self.give_way(other.grant, lease.grant)

    def _check(self, lease: Lease) -> None:
        if lease.ended or self._closed:
            raise RolledBack(OVER)
        if lease.failed is not None:
            error = lease.failed
            if isinstance(error, asyncio.CancelledError):
                raise RolledBack("a statement was cancelled")
            raise error

    async def _end(self, lease: Lease) -> None:
        try:
            running = lease.running
            if running is not None and not running.done():
                if lease.connection is not None:
                    await self._database.in_thread(lease.interrupt)
                await asyncio.wait([running])
            if running is not None and not running.cancelled():
                running.exception()  # it was told, or nobody is there to be told
            if (connection := lease.connection) is not None:
                await self._database.in_thread(connection.close)
        except Exception as error:
            logger.warning("view %s: a connection broke: %s", self._view, described(error))
        finally:
            self._open -= lease.running is not None
            self._freed.set()
