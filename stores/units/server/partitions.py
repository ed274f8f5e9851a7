"""Which members this server owns: a consumer group of the destination's servers."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NoReturn

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError, ProducerFenced

import stores.kafka_records  # noqa: F401  # what it reads may have header names that are not UTF-8
from stores.topic_id import topic_id
from stores.units.errors import UnitError
from stores.units.kafka.records import HANDOVER
from stores.units.kafka.row_log import PATIENCE, read_to, reader
from stores.units.kafka.topics import rows_topic
from stores.units.server.owner import Owner
from stores.units.server.settings import ServerSettings
from topology.model.ending import end_tasks, wait_for_stop
from topology.model.printable import printable

logger = logging.getLogger(__name__)

RECORDS = 2_000
"""Read at a time."""
AGAIN = 1.0
"""Seconds until an owner that failed starts again."""
AHEAD = 1.0
"""Seconds between looks at what lies ahead of members that are full."""
TOLD = 10_000
"""Records of a look after which it is noted how far it is."""
RETENTION = 60.0
"""Seconds between looks at what retention has deleted."""
LONGEST = 60.0
"""Seconds at most, after it was fenced several times."""


class OwnedPartitions(ConsumerRebalanceListener):  # type: ignore[misc]
    """Owners of what the group assigns to this server.

    Args:
        settings: of the server.
        rows: partitions of the topic of rows.
        members: topic → members, of the topics that messages may be sent to.
        url: under which consumers reach this server.
        owners: member → its owner, kept here: those that have restored what is durable.
    """

    def __init__(
        self,
        settings: ServerSettings,
        rows: int,
        members: dict[str, int],
        url: str,
        owners: dict[int, Owner],
    ) -> None:
        self._settings, self._rows, self._members, self._url = settings, rows, members, url
        self.owners = owners
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._assigned = asyncio.Event()
        """Set, and made anew, with each assignment."""
        self._consumer = AIOKafkaConsumer(
            **{"fetch_max_wait_ms": 50, "retry_backoff_ms": 50, **settings.kafka},
            group_id=settings.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=round(max(6.0, settings.lease) * 1000),
            heartbeat_interval_ms=1000,
            partition_assignment_strategy=(StickyPartitionAssignor,),
        )

    async def run(self, stopped: asyncio.Event) -> None:
        """Own what is assigned until it is told to stop; then hand over in order."""
        await self._consumer.start()
        self._consumer.subscribe([self._settings.destination], listener=self)
        looking = [asyncio.create_task(each) for each in (self._forget_moved(), self._look_ahead())]
        try:
            while not stopped.is_set():
                try:
                    await self._read()
                except KafkaError as error:
                    logger.warning("reading: %s; trying again", printable(error))
                    await asyncio.sleep(AGAIN)
        finally:
            await end_tasks(*looking)
            for member in list(self._tasks):
                self._release(member)
            if self._ending:
                await asyncio.wait(self._ending)
            await wait_for_stop(self._consumer.stop())

    @property
    def starting(self) -> list[int]:
        """Members that are assigned, and whose owners have not restored what is durable."""
        return sorted(self._tasks.keys() - self.owners.keys())

    async def ends(self) -> dict[TopicPartition, int]:
        """Where the members that are owned end. Raises KafkaError.

        What a transaction leaves behind its last message is none, and no owner gets it.
        """
        places = {TopicPartition(self._settings.destination, each): each for each in self.owners}
        found: dict[TopicPartition, int] = await self._consumer.end_offsets(list(places))
        for at, end in found.items():
            read, owner = await self._consumer.position(at), self.owners.get(places[at])
            if owner is not None and read >= end:
                found[at] = min(end, owner.queue.read_to)
        return found

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Owners go on: the assignment tells which stay, and who is not one is fenced."""

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Begin to own what is new, read on where an owner stays, and let go of the rest."""
        self._assigned.set()
        self._assigned = asyncio.Event()
        members = {each.partition for each in assigned}
        for member in self._tasks.keys() - members:
            self._release(member)
        for member in members:
            at = TopicPartition(self._settings.destination, member)
            if (owner := self.owners.get(member)) is not None:
                self._consumer.seek(at, owner.queue.read_to)
            else:
                self._consumer.pause(at)
                if member not in self._tasks:
                    self._tasks[member] = asyncio.create_task(self._own(member))

    async def _read(self) -> None:
        found = await self._consumer.getmany(timeout_ms=200, max_records=RECORDS)
        assigned, gaps = self._consumer.assignment(), list[tuple[Owner, int, int]]()
        for member, owner in list(self.owners.items()):
            at = TopicPartition(self._settings.destination, member)
            if at not in assigned or owner.stale:
                continue
            if records := found.get(at):
                if records[0].offset < owner.queue.read_to:
                    # Nobody told it to go back: the topic was made anew, or has lost its end.
                    owner.stale = True
                    owner.end()
                    continue
                gaps.append((owner, owner.queue.read_to, records[0].offset))
                owner.arrive(records, records[-1].offset + 1)
            if owner.full:
                self._consumer.pause(at)
            elif at in self._consumer.paused():
                self._consumer.resume(at)

        for owner, place, offset in gaps:
            if offset > place + 1:  # markers of transactions mostly, or what was deleted unread
                await self._tell_of_loss(owner, place, offset)

    def _release(self, member: int) -> None:
        task = self._tasks.pop(member)
        if (owner := self.owners.get(member)) is not None:
            owner.end()
        else:
            task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _own(self, member: int) -> None:
        """Own a member until it is released; an owner that fails begins anew."""
        mine, fenced = asyncio.current_task(), 0
        while self._tasks.get(member) is mine:
            owner = Owner(self._settings, member, member % self._rows, self._members, self._url)
            orderly = False  # who is stopped before it knows what is durable must not write
            try:
                await owner.start()
                await self._seek(owner)
                if self._tasks.get(member) is not mine:  # a client may swallow a cancellation
                    return
                self.owners[member] = owner
                await owner.run()
                orderly = not owner.stale
            except ProducerFenced:
                # Who of two is right the next assignment tells; until then they fence each other.
                logger.warning("member %d: another server owns it now", member)
                fenced += 1
            except UnitError as error:
                logger.error("member %d: %s", member, error)
            except KafkaError as error:
                logger.warning("member %d: %s; starting again", member, printable(error))
            except Exception:
                logger.exception("member %d: its owner failed; starting again", member)
            finally:
                if self.owners.get(member) is owner:
                    del self.owners[member]
                await owner.stop(orderly)
            if orderly:
                return
            at = TopicPartition(self._settings.destination, member)
            with suppress(Exception):
                self._consumer.pause(at)
            pause = min(AGAIN * 2 ** max(0, fenced - 1), LONGEST)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._assigned.wait(), pause)
                fenced = 0

    async def _seek(self, owner: Owner) -> None:
        at = TopicPartition(self._settings.destination, owner.member)
        first = (await self._consumer.beginning_offsets([at]))[at]
        end = (await self._consumer.end_offsets([at]))[at]
        place = owner.position
        if place is None:
            place = await self._consumer.committed(at)
            if place is None or place > end:
                place = first
        # What comes now would be taken for what was complete before.
        if not owner.is_of(await topic_id(self._consumer._client, self._settings.destination)):
            self._refuse(f"{at.topic}/{at.partition} is not the one that is on record")
        if place > end:
            self._refuse(
                f"{at.topic}/{at.partition} ends at offset {end}, but what is on record goes to"
                f" {place}"
            )
        self._check_retention(owner, place, first)
        owner.queue.log_begins(first)
        place = max(place, first)
        owner.queue.nothing_below(place)
        self._consumer.seek(at, place)
        self._consumer.resume(at)

    def _refuse(self, what: str) -> NoReturn:
        topic = self._settings.destination
        raise UnitError(
            f"{what}: the topic was made anew, or lost its end; nothing is delivered, and nothing"
            f" passed by. Stop the servers, delete topic {rows_topic(topic)!r}, and start them to"
            " begin with what the topic has; start consumers that run anew too"
        )

    async def _forget_moved(self) -> None:
        """Keep no more of units that left than the topic does; until cancelled."""
        while True:
            await asyncio.sleep(RETENTION)
            for member, owner in list(self.owners.items()):
                at = TopicPartition(self._settings.destination, member)
                with suppress(KafkaError):
                    if owner.queue.moved:
                        owner.queue.log_begins((await self._consumer.beginning_offsets([at]))[at])
                        owner.tick()

    async def _look_ahead(self) -> None:
        """Let units go on that fill a member, and wait for what lies behind; until cancelled."""
        while True:
            await asyncio.sleep(AHEAD)
            for owner in list(self.owners.values()):
                if owner.full and owner.queue.arriving:
                    try:
                        await self._read_ahead(owner)
                    except Exception as error:  # it is tried again
                        logger.warning(
                            "member %d, reading ahead: %s", owner.member, printable(repr(error))
                        )

    async def _read_ahead(self, owner: Owner) -> None:
        at = TopicPartition(self._settings.destination, owner.member)
        place = max(owner.looked, owner.queue.read_to)
        end = (await self._consumer.end_offsets([at]))[at]
        if place < end:
            consumer = reader(self._settings.kafka)
            try:
                await consumer.start()
                consumer.assign([at])
                consumer.seek(at, place)
                async for record in read_to(consumer, at, end, PATIENCE):
                    told = [record] if any(n == HANDOVER for n, _ in record.headers) else []
                    # What is read is not read again, also if the rest cannot be read now.
                    if told or record.offset - owner.looked >= TOLD:
                        owner.look_ahead(told, record.offset + 1)
                        if not owner.full:
                            return
            finally:
                await wait_for_stop(consumer.stop())
        owner.look_ahead((), max(place, end))

    async def _tell_of_loss(self, owner: Owner, place: int, offset: int) -> None:
        at = TopicPartition(self._settings.destination, owner.member)
        with suppress(KafkaError):
            first = (await self._consumer.beginning_offsets([at]))[at]
            self._check_retention(owner, place, min(first, offset))

    def _check_retention(self, owner: Owner, place: int, first: int) -> None:
        if place < first:
            logger.error(
                "%s/%d: it is at offset %d, but the topic begins at %d: retention has deleted what "
                "comes between", self._settings.destination, owner.member, place, first,
            )  # fmt: skip


def partitions_of(owners: Iterable[Owner]) -> list[dict[str, Any]]:
    """What there is of each member, as data."""
    return [
        {
            "member": each.member,
            "epoch": each.epoch,
            "messages": each.queue.messages,
            "bytes": each.queue.size,
            "parked": each.queue.parked_messages,
            "paused": each.queue.paused,
            "sessions": sum(session.connected for session in each.sessions.values()),
            "former_sessions": len(each.succession.silent),
            "unadmitted": each.queue.unadmitted,
            "counts": {str(outcome): count for outcome, count in each.queue.counts.items()},
        }
        for each in owners
    ]
