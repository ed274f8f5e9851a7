"""What a consumer reads of its partitions: their primaries, or recoveries in the place of those."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError, OffsetOutOfRangeError, ProducerFenced

from stores.replay.recovering.errors import PrimaryTrimmed
from stores.replay.recovering.group_log import Request
from stores.replay.recovering.group_topic import GroupTopic
from stores.replay.recovering.lookup import Lookup, seen
from stores.replay.recovering.owned import OwnedPartition
from stores.replay.recovering.switch import Phase, TooManyIds

logger = logging.getLogger(__name__)

_BACK = 10_000
"""Records before the position by which a consumer learns how far other partitions are."""


class Handed(NamedTuple):
    """Records of a partition, and the recovery that they are of; None: of its primary."""

    owned: OwnedPartition
    records: list[Any]
    recovery: str | None


class Reading:
    """Partitions that a consumer owns; one task at a time works with it.

    Args:
        group: what the consumers of the group tell each other.
        lookup: looks into topics.
        primary: reads primaries, as the group's member.
        recovery: reads recoveries.
        make: makes what is known of a partition.
        end: ends a recovery, and says why.
        most: records at a time.
        early: whether a partition begins at its first message where nothing of it was read yet.
        accept_loss: whether to go on where messages were deleted before they were read.

    Attributes:
        assigned: the partitions that the group gives.
        owned: those that are read.
        at_work: the one whose records are handed on and not committed.
    """

    def __init__(
        self,
        group: GroupTopic,
        lookup: Lookup,
        primary: AIOKafkaConsumer,
        recovery: AIOKafkaConsumer,
        make: Callable[[TopicPartition], OwnedPartition],
        end: Callable[[Request, str], Awaitable[None]],
        *,
        most: int,
        early: bool,
        accept_loss: bool,
    ) -> None:
        self._group, self._lookup, self._make, self._end = group, lookup, make, end
        self._primary, self._recovery = primary, recovery
        self._most, self._early, self._accept_loss = most, early, accept_loss
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.owned: dict[TopicPartition, OwnedPartition] = {}
        self.at_work: OwnedPartition | None = None
        self._queue: deque[tuple[OwnedPartition, bool, list[Any], int]] = deque()
        self._kept: dict[tuple[str, str], float | None] = {}

    async def tick(self) -> None:
        """Hear of the group, own what is assigned, and take the next step of each partition."""
        await self._group.read()
        await self._open()
        for owned in list(self.owned.values()):
            if owned is not self.at_work and not owned.lost:
                await self._step(owned)

    async def _open(self) -> None:
        for at, owned in list(self.owned.items()):
            if owned.lost and owned is not self.at_work:
                del self.owned[at]
                await owned.stop()
                if owned.recovering is not None:
                    self._read_recoveries()
        for at in sorted(self.assigned - self.owned.keys()):
            owned = self.owned[at] = self._make(at)
            try:
                await owned.start()
                await self._group.read_to_end()
                committed = await self._primary.committed(at)
                position = committed
                if position is None:
                    of = self._lookup
                    position = await (of.begin_of(at) if self._early else of.end_of(at))
                found = self._group.log.partitions.get((at.topic, at.partition))
                owned.restore(found, committed, position)
                await self._settle(owned)
            except BaseException:
                owned.lost = True
                raise

    async def _settle(self, owned: OwnedPartition) -> None:
        """Read what the switch says, now that it is committed."""
        switch, at = owned.switch, owned.at
        if owned.reads_primary and not switch.on_primary:
            owned.reads_primary = False
            self._primary.pause(at)
        elif switch.on_primary and not owned.reads_primary:
            if owned.recovering is not None:
                owned.recovering = None
                self._read_recoveries()
            await self._not_trimmed(owned, await self._lookup.begin_of(at))
            self._primary.seek(at, switch.position)
            self._primary.resume(at)
            owned.reads_primary = True
        if not switch.on_primary and switch.phase is not Phase.RECOVERY:
            owned.recovering = None

    async def _not_trimmed(self, owned: OwnedPartition, begin: int) -> None:
        at, position = owned.at, owned.switch.position
        if begin <= position:
            return
        said = f"{at.topic}/{at.partition}: offsets {position} to {begin - 1} were deleted unread"
        if not self._accept_loss:
            raise PrimaryTrimmed(
                f"{said}; recover them from the replay log, and go on with accept_loss=True"
            )
        logger.error("%s", said)
        owned.switch.position = begin

    async def _step(self, owned: OwnedPartition) -> None:
        switch, log = owned.switch, self._group.log
        if switch.phase is Phase.PRIMARY:
            active = log.active()
            if active is None or active.recovery or switch.request == active.id:
                return
            if owned.at.topic in active.topics:
                switch.stop(active.id)
                await self.commit(owned)
            return
        request = log.requests.get(switch.request)
        if request is None or request.ended is not None:
            switch.leave()
            await self.commit(owned)
        elif request.recovery and not switch.on_primary and owned.recovering is None:
            await self._begin(owned, request)

    async def _begin(self, owned: OwnedPartition, request: Request) -> None:
        """Begin a round of a recovery, or go on with it, once it is there."""
        if time.monotonic() < owned.not_before or request.recovery_topics is None:
            return
        owned.not_before = time.monotonic() + 0.5
        at, switch, of = owned.at, owned.switch, self._lookup
        there = TopicPartition(request.recovery_topics[at.topic], at.partition)
        if there.topic not in await of.topics():
            return
        asked = request.id, at.topic
        if asked not in self._kept:
            self._kept = {each: kept for each, kept in self._kept.items() if each[0] == request.id}
            self._kept[asked] = await of.retention(at.topic)
        left = await of.seconds_left(at, switch.position, self._kept[asked])
        owned.give_up = float("inf") if left is None else time.monotonic() + left * 0.9
        if request.through_router:
            if not await of.has_end(there, request.recovery):
                return
            until = switch.begin(await of.end_of(at))
            low = max(await of.begin_of(at), switch.position - _BACK)
            try:
                async for records in of.records(at, low, until):
                    switch.look([seen(each) for each in records])
            except TooManyIds as error:
                await self._end(request, f"{at.topic}/{at.partition}: {error}; recover directly")
                return
        else:
            switch.begin()
        owned.recovering, owned.recovery = there, request.recovery
        self._read_recoveries()

    def _read_recoveries(self) -> None:
        read = [each for each in self.owned.values() if each.recovering is not None]
        self._recovery.assign([each.recovering for each in read])
        for each in read:
            self._recovery.seek(each.recovering, each.switch.reached)

    async def next(self) -> Handed | None:
        """The next records of a partition that is not at work; None: there are none now."""
        if not self._queue:
            await self._fetch()
        while self._queue:
            owned, of_recovery, records, behind = self._queue[0]
            switch, request = owned.switch, owned.switch.request
            from_primary = not of_recovery and switch.on_primary
            left_out = owned.lost or owned is self.at_work
            if from_primary and not left_out and records[0].offset > switch.position:
                await self._not_trimmed(owned, await self._lookup.begin_of(owned.at))
            self._queue.popleft()  # who is cancelled before finds it again
            if owned.lost or owned is self.at_work:
                continue
            if of_recovery and switch.phase is Phase.RECOVERY:
                try:
                    kept = switch.recovered(
                        [seen(each, owned.recovery, request) for each in records]
                    )
                except TooManyIds as error:
                    owned.lost = True  # what it was is read again
                    known = self._group.log.requests[request]
                    await self._end(known, f"{owned.at}: {error}; recover directly")
                    continue
            elif from_primary:
                kept = switch.read([seen(each) for each in records])
                if switch.phase is Phase.PRIMARY:
                    switch.position = max(switch.position, behind)
            else:
                continue
            if not kept:
                await self.commit(owned)
                continue
            handed = [records[index] for index in kept]
            return Handed(owned, handed, request if of_recovery else None)
        return None

    async def _fetch(self) -> None:
        mine = [each for each in self.owned.values() if not each.lost]
        primary = {each.at: each for each in mine if each.reads_primary}
        recovery = {each.recovering: each for each in mine if each.recovering is not None}
        if not primary and not recovery:
            await asyncio.sleep(0.1)
        for wait in (0, 100):
            for reader, of in ((self._recovery, recovery), (self._primary, primary)):
                if not of or self._queue:
                    continue
                try:
                    found = await reader.getmany(*of, timeout_ms=wait, max_records=self._most)
                except OffsetOutOfRangeError as error:
                    if reader is self._primary or (active := self._group.log.active()) is None:
                        raise
                    await self._end(active, f"its topic was deleted in part: {error!r}")
                    return
                for at, records in found.items():
                    if records and at in of:
                        behind = await reader.position(at)
                        self._queue.append((of[at], reader is self._recovery, records, behind))

    async def commit(self, owned: OwnedPartition) -> None:
        """Commit what came of a partition; who is fenced has lost it. Raises KafkaError."""
        if owned.lost:
            return
        at = f"{owned.at.topic}/{owned.at.partition}"
        try:
            await owned.commit()
        except ProducerFenced:
            owned.lost = True
            logger.warning(
                "%s: another consumer has it, or a batch took more than %.0f s; what was not "
                "committed comes again",
                *(at, owned.seconds),
            )
        except KafkaError as error:
            owned.lost = True
            if not error.retriable:
                raise
            logger.warning("%s: %r; what was not committed comes again", at, error)
        except asyncio.CancelledError:  # it may be committed or not
            owned.lost = True
            raise
        else:
            with suppress(IllegalStateError):
                await self._settle(owned)
