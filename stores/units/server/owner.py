"""The owner of one member: its queue in memory, its sessions, and what of it is durable.

An owner begins by fencing the former one. Then it reads what is durable, and delivers nothing
before each session of the former owner has told what it holds, or its lease is over. Every
transaction proves that the member is still owned, and only a proof of late lets leases go on: so
what a fenced owner has handed out ends before anybody else is given it.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any

from stores.db.steady_clock import steady
from stores.units.errors import UnitError
from stores.units.kafka.records import StoredMessage, read_headers
from stores.units.kafka.row_log import OWNER, POSITION, SESSION, restore_rows
from stores.units.kafka.rows import row_value
from stores.units.naming import checked_name
from stores.units.queue import Filter, Outcome, UnitMessage, UnitQueue
from stores.units.server.session import Session, delivery_frame
from stores.units.server.settings import ServerSettings
from stores.units.server.succession import Succession
from stores.units.server.transactions import Batch, OwnerTransactions, Send
from stores.units.wire import unpacked
from topology.model.printable import printable
from topology.ordered_commit.offset_ranges import OffsetRanges

logger = logging.getLogger(__name__)

LINGER = 0.01
"""Seconds for which completions gather before they are made durable; nobody waits for that."""

_UNKNOWN = (
    "the owner of the member ended before this was durable; look at the records whether it was done"
)


class Owner:
    """Owns a member for a subscriber, until it is fenced or stopped.

    Args:
        settings: of the server.
        member: partition of the destination.
        partition: of the topic of rows, where the member's rows are.
        members: topic → members, of the topics that messages may be sent to.
        url: under which consumers reach this server.
    """

    def __init__(
        self,
        settings: ServerSettings,
        member: int,
        partition: int,
        members: dict[str, int],
        url: str,
    ) -> None:
        self.settings, self.member, self.url = settings, member, url
        self._partition = partition
        self._transactions = OwnerTransactions(settings, member, partition, members)
        self.queue = UnitQueue(settings.queue)
        self.sessions: dict[str, Session] = {}
        self.succession = Succession(())
        self._former_consumers: dict[str, str] = {}
        self.epoch = 0
        self.position: int | None = None
        """Where to read on; None before anything is known: see the group, or begin."""
        self._restored: tuple[int, OffsetRanges] = (0, OffsetRanges())
        self._fenced_former = self._proven = self._former_lease = 0.0
        self._batch, self._committed = Batch(), -1
        self.durable_position = 0
        """The offset below which everything is complete, durably; parked messages are not."""
        self._committing_commits = False
        self._wake, self._ticking = asyncio.Event(), False
        self._owner_row_at = 0.0
        self._stopping, self._ended = False, asyncio.Event()

    # From start to end.

    async def start(self) -> None:
        """Fence the former owner, and restore what it made durable."""
        self._proven = time.monotonic()
        await self._transactions.start()
        self._fenced_former = time.monotonic()
        settings = self.settings
        found = await restore_rows(
            settings.kafka, settings.destination, settings.group, self.member, self._partition
        )
        rows, done, position, former = {}, OffsetRanges(), 0, set[str]()
        for key, value in found.items():
            match key:
                case (str(subject),) if subject == OWNER and isinstance(value, dict):
                    self.epoch = int(value.get("epoch", 0))
                    self._former_lease = float(value.get("lease", 0.0))
                case (str(subject),) if subject == POSITION and isinstance(value, dict):
                    position = self.position = int(value["position"])
                    done = OffsetRanges.decode(unpacked(value["done"]) or b"")
                case (str(subject), str(session)) if subject == SESSION:
                    former.add(session)
                    if isinstance(value, dict) and isinstance(whose := value.get("consumer"), str):
                        self._former_consumers[session] = whose
                case _ if row := row_value(key, value):
                    rows[row[0]] = row[1]
                case _:
                    logger.warning("member %d: row %s is not known", self.member, printable(key))
        self.epoch += 1
        self._restored = position, done.copy()
        self.queue.restore(rows, position, done, steady(), former)
        self.succession = Succession(former)
        logger.info(
            "%s/%d is owned, epoch %d, from %s; %d former sessions",
            settings.destination, self.member, self.epoch, self.position, len(former),
        )  # fmt: skip

    async def run(self) -> None:
        """Commit what there is to commit, and let leases end; until stopped. Raises KafkaError."""
        while not self._stopping:
            await self._commit()
            if self._batch_is_empty():
                pause = self.settings.heartbeat / 2
                if (due := self.queue.due) is not None:
                    pause = min(pause, max(0.001, due - steady()))
                try:
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                except TimeoutError:
                    pass
            elif not self._batch.commits:
                await asyncio.sleep(LINGER)
            self._wake.clear()
            self._end_leases()
            if (due := self.queue.due) is not None and due <= steady():
                self.tick()

    def end(self) -> None:
        """Let `run` return: nothing is handed out any more."""
        self._stopping = True
        self._wake.set()

    async def stop(self, orderly: bool) -> None:
        """End: sessions look for the next owner. orderly: what is known is made durable before."""
        self.end()
        try:
            if orderly:
                async with asyncio.timeout(self.settings.lease):
                    await self._commit()
        except Exception as error:
            logger.info("member %d: the last commit failed: %s", self.member, printable(error))
        finally:
            self._ended.set()
            await asyncio.gather(*(each.close("moved") for each in self.sessions.values()))
            try:
                async with asyncio.timeout(self.settings.lease):
                    await self._transactions.stop()
            except Exception as error:  # the next owner fences it anyway
                logger.info("member %d: disconnecting failed: %s", self.member, printable(error))

    # What arrives, and what goes out.

    def arrive(self, records: Iterable[Any], read_to: int) -> None:
        """Take records of the member in. read_to: up to where it was read."""
        now = steady()
        for record in records:
            found = read_headers(record.headers)
            handover, group = found.handover or (None, "")
            if handover is None or handover.kind != "handed":
                self.queue.arrive(self._message(record, found), now, found.epoch)
            elif found.unit is not None and group == self.settings.group:
                self.queue.handed(found.unit, handover.epoch, record.offset, now)
        self.queue.nothing_below(read_to)
        self.tick()

    @property
    def full(self) -> bool:
        """Whether it should read no further for now."""
        queue, settings = self.queue, self.settings
        if queue.read_to <= self.succession.end:  # the former owner had read it too
            return False
        return queue.messages >= settings.messages or queue.size >= settings.size

    def _message(self, record: Any, found: StoredMessage) -> UnitMessage:
        unit = found.unit
        if unit is None and self.settings.naming is not None:
            try:
                named = self.settings.naming(found, record.key)
                unit = None if named is None else checked_name(named)
            except Exception as error:  # a function of the user's: the message goes on ungrouped
                logger.warning("offset %d has no name: %s", record.offset, printable(error))
        if found.damaged:
            logger.warning(
                "%s/%d offset %d: the headers %s cannot be read and are passed by",
                self.settings.destination, self.member, record.offset, printable(found.damaged),
            )  # fmt: skip
        return UnitMessage(
            offset=record.offset,
            unit=unit,
            sort=found.sort,
            not_before=found.not_before or 0.0,
            expires=found.expires,
            attributes=found.attributes,
            size=len(record.value or b"") + sum(map(len, found.attributes.values())),
            content=record.value or b"",
            handover=found.handover[0] if found.handover else None,
        )

    def tick(self) -> None:
        """Hand out what there is, and take what changed; once for all calls of this moment."""
        if not self._ticking and not self._stopping:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        self._ticking = False
        if self._stopping:
            return
        now = steady()
        if (due := self.queue.due) is not None and due <= now:
            self.queue.expire(now)
        if not self.succession.over:
            self._succeed(now)
        self._take_changes(now)
        if time.monotonic() < self._proven + self.settings.lease:
            for session in self.sessions.values():
                ready = session.wants and session.durable and session.connected
                if ready and (found := self.queue.next(session.name, now)):
                    session.wants = False
                    session.deliver(found)
        if not self._batch_is_empty():
            self._wake.set()

    def _take_changes(self, now: float) -> None:
        changes = self.queue.take_changes()
        self._batch.add(changes)
        # What a transacted consumer commits is durable before anybody gets what follows.
        # Else what follows goes out at once: who has it tells the next owner, if need be, and that
        # what was before it in the unit is complete follows from that.
        if not self._batch.commits and not self._committing_commits:
            self.queue.settled(changes.number, now)

    # What is durable.

    def _batch_is_empty(self) -> bool:
        batch = self._batch
        moved = batch.changes is not None and batch.changes.position != self._committed
        return not (batch.rows or batch.departures or batch.sends or batch.confirm or moved)

    async def _commit(self) -> None:
        """Make durable what has changed, or prove that the member is still owned."""
        now = time.monotonic()
        self._take_changes(steady())
        due = now - self._owner_row_at >= self.settings.heartbeat
        if self._batch_is_empty() and not due:
            return
        batch, self._batch = self._batch, Batch()
        oldest_parked = self.queue.oldest_parked
        if due:
            self._owner_row_at = now
            batch.rows[OWNER,] = {
                "server": self.settings.name,
                "url": self.url,
                "epoch": self.epoch,
                "lease": self._longest_lease,
            }
        self._committing_commits = batch.commits
        try:
            proven = await self._transactions.commit(batch)
        finally:
            self._committing_commits = False
        self._proven = proven
        if batch.changes is not None:
            position = self._committed = batch.changes.position
            self.durable_position = (
                position if oldest_parked is None else min(position, oldest_parked)
            )
            self.queue.settled(batch.changes.number, steady())
        for confirm in batch.confirm:
            confirm()
        self.tick()

    async def made_durable(self) -> None:
        """Wait until what is known now is durable."""
        if self._stopping or self._ended.is_set():
            raise UnitError(_UNKNOWN)
        durable, ended = asyncio.Event(), asyncio.create_task(self._ended.wait())
        self._batch.confirm.append(durable.set)
        self.tick()
        waiting = asyncio.create_task(durable.wait())
        try:
            await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            ended.cancel()
        if not durable.is_set():
            raise UnitError(_UNKNOWN)

    # Sessions and leases.

    @property
    def _longest_lease(self) -> float:
        """The longest lease that any session may have: former servers may have granted longer."""
        lease = self.settings.lease
        return lease if self.succession.over else max(lease, self._former_lease)

    @property
    def remaining(self) -> float:
        """Seconds for which a session may work from now on: since the last proof, a lease."""
        return self._proven + self.settings.lease - time.monotonic()

    def grant(self, session: Session) -> float:
        """Let a session go on; returns for how many seconds."""
        remaining = max(0.0, self.remaining)
        session.granted = max(session.granted, time.monotonic() + remaining)
        return remaining

    def _end_leases(self) -> None:
        now = time.monotonic()
        for session in [each for each in self.sessions.values() if each.granted < now]:
            logger.info("session %s: its lease is over", printable(session.name))
            self.succession.forget(session.name)
            self.queue.lose_session(session.name, steady())
            self._forget(session)
        if self.succession.silent and now > self._fenced_former + self._longest_lease:
            for name in list(self.succession.silent):
                self.succession.forget(name)
                self._batch.rows[SESSION, name] = None
            self.tick()

    def _succeed(self, now: float) -> None:
        """Deliver from now on, if all that the former owner's sessions know is known."""

        def settle() -> None:
            self._batch.add(changes := self.queue.take_changes())
            self.queue.settled(changes.number, now)

        if (found := self.succession.decide(self.queue, now, settle)) is None:
            return
        for name, deliveries in found.items():
            session = self.sessions[name]
            session.held = {each.number: each for each in deliveries}
            session.completed.extend(session.told_completed)
            told = [*session.told_held, *session.told_completed]
            session.send("rejoined", **self._state(session, told))

    def join(
        self,
        name: str,
        prefetch: int,
        filter: Filter,
        held: list[int],
        completed: list[int],
        returned: list[int],
        consumer: str = "",
    ) -> tuple[Session, dict[str, Any]]:
        """A session connects, for the first time or again; returns it and what it is told.

        held, completed, returned: offsets, as the consumer knows of them. consumer: see `Session`.
        Raises UnitError.
        """
        session = self.sessions.get(name)
        whose = session.consumer if session else self._former_consumers.get(name, consumer)
        if whose != consumer and (session or name in self.succession.silent):
            raise UnitError(
                f"session {printable(name)} is another consumer's until its lease is over: give"
                " each consumer a name of its own"
            )
        if session is None:
            if len(self.sessions) >= self.settings.sessions:
                raise UnitError(
                    f"member {self.member} has {self.settings.sessions} sessions, no more are taken"
                )
            self.queue.open_session(name, filter, prefetch)
            session = self.sessions[name] = Session(name, consumer)
        lease = self.grant(session)
        session.told_held, session.told_completed = held, completed
        self.tick()
        if self.succession.tell(name, held, completed, returned):
            session.durable = True
            return session, {"epoch": self.epoch, "lease": lease, "pending": True}
        if not session.durable:
            self._batch.rows[SESSION, name] = {"since": steady(), "consumer": consumer}
            self._batch.confirm.append(lambda: self._made_durable(session))
        known = {each.message.offset: number for number, each in session.held.items()}
        if mine := [known[offset] for offset in completed if offset in known]:
            self.complete(session, mine)
        state = self._state(session, [*held, *completed])
        return session, {"epoch": self.epoch, "lease": lease, **state}

    def _state(self, session: Session, told: list[int]) -> dict[str, Any]:
        """Which of the offsets that it told of a session holds, and which are complete."""
        gone = [each for each in told if self._is_complete(session, each)]
        self._confirm(session, gone)
        there = frozenset(told)
        held = [
            delivery_frame(each, content=False)
            for each in session.held.values()
            if each.message.offset in there
        ]
        return {"d": held, "gone": gone}

    def _is_complete(self, session: Session, offset: int) -> bool:
        """Whether this session completed it: here, or as the former owner has heard."""
        position, done = self._restored
        return offset < position or offset in done or offset in session.completed

    def _confirm(self, session: Session, offsets: list[int]) -> None:
        """Tell a session of completions once they are durable."""
        if offsets:
            self._batch.confirm.append(lambda: session.send("settled", o=offsets))

    def _made_durable(self, session: Session) -> None:
        session.durable = True

    def leave(self, session: Session, complete: bool) -> None:
        """A session ends in order."""
        self.succession.forget(session.name)
        if self.sessions.get(session.name) is session:
            self.queue.close_session(session.name, steady(), complete)
            self._forget(session)

    def _forget(self, session: Session) -> None:
        del self.sessions[session.name]
        self._batch.rows[SESSION, session.name] = None
        asyncio.get_running_loop().create_task(session.close("lost"))
        self.tick()

    # What sessions say of their deliveries. Raises UnitError for what they do not hold.

    def complete(
        self,
        session: Session,
        numbers: list[int],
        how: Outcome = Outcome.ACKNOWLEDGED,
        sends: Iterable[Send] = (),
    ) -> None:
        """Deliveries are complete; the session is told once that is durable."""
        self._check(session)
        self.queue.complete(session.name, numbers, steady(), how)
        offsets = [session.held.pop(each).message.offset for each in dict.fromkeys(numbers)]
        session.completed.extend(offsets)
        self._batch.sends += sends
        self._batch.commits |= how is Outcome.COMMITTED
        self._confirm(session, offsets)
        self.tick()

    def roll_back(
        self,
        session: Session,
        numbers: list[int],
        delay: float | None,
        reason: str,
        failed: bool = True,
    ) -> None:
        """Deliveries failed; all that the session holds of their units returns."""
        self._check(session)
        self.queue.roll_back(session.name, numbers, steady(), delay, reason, failed)
        units = {session.held[n].message.unit for n in numbers if n in session.held} - {None}
        back = [n for n, each in session.held.items() if n in numbers or each.message.unit in units]
        session.send("returned", o=[session.held.pop(number).message.offset for number in back])
        self.tick()

    def _check(self, session: Session) -> None:
        if self.sessions.get(session.name) is not session:
            raise UnitError(f"session {session.name!r} is over; open another one")
