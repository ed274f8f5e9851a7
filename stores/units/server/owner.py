"""The owner of one member: its queue in memory, its sessions, and what of it is durable.

An owner begins by fencing the former one. Then it reads what is durable, and delivers nothing
before each session of the former owner has told what it holds, or its lease is over. Every
transaction proves that the member is still owned, and only a proof of late lets leases go on: so
what a fenced owner has handed out ends before anybody else is given it.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from stores.db.steady_clock import elapsed, steady
from stores.units.kafka.records import StoredMessage, key_of, read_headers
from stores.units.kafka.row_log import OWNER, POSITION, SESSION, restore_rows
from stores.units.kafka.rows import row_value
from stores.units.naming import checked_name
from stores.units.queue import NO_ATTRIBUTES, UnitMessage
from stores.units.server.sessions import MOST_UNSETTLED, MemberSessions
from stores.units.server.settings import ServerSettings
from stores.units.server.succession import Succession
from stores.units.server.transactions import OwnerTransactions
from stores.units.wire import unpacked
from topology.model.printable import printable
from topology.ordered_commit.offset_ranges import OffsetRanges

logger = logging.getLogger(__name__)

LINGER = 0.01
"""Seconds for which completions gather before they are made durable; nobody waits for that."""
RANGE = 3e-6
"""The same for each range of offsets that are complete beyond the position."""


class Owner(MemberSessions):
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
        transactions = OwnerTransactions(settings, member, partition, members)
        super().__init__(settings, member, transactions, url)
        self._partition = partition
        self.position: int | None = None
        """Where to read on; None before anything is known: see the group, or begin."""
        self.topic: str | None = None
        """The id of the topic that this is about; None: nobody has said."""
        self.looked = 0
        """Up to where was looked ahead, while it was full."""
        self._handed_ahead: dict[tuple[str, int], int] = {}
        """Unit and epoch of its move → the offset ahead that says that it is handed over."""
        self.stale = False
        """Whether the log has gone back, so that it is to be looked what the topic is."""

    # From start to end.

    async def start(self) -> None:
        """Fence the former owner, and restore what it made durable."""
        self._proven = elapsed()
        await self._transactions.start()
        self._fenced_former = elapsed()
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
                    self.topic = value.get("topic")
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
                # Many ranges take their time to be written.
                await asyncio.sleep(max(LINGER, self.queue.ranges * RANGE))
            self._wake.clear()
            self._end_leases()
            if (due := self.queue.due) is not None and due <= steady():
                self.tick()

    def is_of(self, topic: str | None) -> bool:
        """Whether what is durable is about the topic of this id, as what comes now is."""
        if None not in (topic, self.topic) and topic != self.topic:
            return False
        self.topic = self._transactions.topic = topic or self.topic
        return True

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

    def look_ahead(self, records: Iterable[Any], looked: int) -> None:
        """While it is full: what lies ahead may let a unit go on that fills it.

        records: those with a handover. looked: up to where they were looked for.
        """
        for record in records:
            found = read_headers(record.headers)
            handover, group = found.handover or (None, "")
            if handover is None or handover.kind != "handed" or group != self.settings.group:
                continue
            if found.unit is not None:
                self._handed_ahead[found.unit, handover.epoch] = record.offset
        self.looked, read = looked, self.queue.read_to
        # What begins such a wait may lie ahead, too: it is told again when that has arrived.
        ahead = {key: offset for key, offset in self._handed_ahead.items() if offset >= read}
        self._handed_ahead = ahead
        for unit, epoch in ahead:
            self.queue.handed_ahead(unit, epoch, steady())
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
        not_before, sent = found.not_before or 0.0, record.timestamp / 1000
        if not_before and sent > 0:  # else it would begin anew with each owner
            not_before = min(not_before, sent + self.settings.queue.longest_wait)
        return UnitMessage(
            offset=record.offset,
            unit=unit,
            sort=found.sort,
            not_before=not_before,
            expires=found.expires,
            attributes=found.attributes or NO_ATTRIBUTES,
            size=len(record.value or b"") + sum(map(len, found.attributes.values())),
            content=record.value,
            key=None if record.key == key_of(unit) else record.key,
            handover=found.handover[0] if found.handover else None,
        )

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
        if elapsed() < self._proven + self.settings.lease:
            self._hand_out(now)
        if not self._batch_is_empty():
            self._wake.set()

    def _hand_out(self, now: float) -> None:
        """Give sessions that ask what there is, those first that asked first."""
        for session in list(self._asking.values()) if self.queue.ready else ():
            if not session.wants or not session.connected:  # it asks again when it is connected
                del self._asking[session.name]
            elif not session.durable or session.unsettled > MOST_UNSETTLED:
                continue
            elif found := self.queue.next(session.name, now):
                del self._asking[session.name]
                session.wants = False
                session.deliver(found)
                if not self.queue.ready:
                    return
