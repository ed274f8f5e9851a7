"""How a recovery begins: all partitions stop, and their primaries keep what is unread."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import IllegalStateError

from stores.replay.recovering.care import ASKED
from stores.replay.recovering.errors import RecoveryRefused
from stores.replay.recovering.group_topic import GroupTopic
from stores.replay.recovering.lookup import Lookup
from stores.replay.recovering.reading import Reading


class Beginning:
    """Waits for the partitions of a group.

    Args:
        group: what the consumers of the group tell each other.
        lookup: looks into topics.
        primary: knows the topics' partitions.
        reading: this consumer's own, which stop too.
        lock: of whoever works with `reading` and `lookup`.
    """

    def __init__(
        self,
        group: GroupTopic,
        lookup: Lookup,
        primary: AIOKafkaConsumer,
        reading: Reading,
        lock: asyncio.Lock,
    ) -> None:
        self._group, self._lookup, self._primary = group, lookup, primary
        self._reading, self._lock = reading, lock

    async def stopped(self, id: str, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """Wait until all partitions of a request have stopped.

        Args:
            id: of the request.
            topics: whose partitions.

        Returns:
            Topic → partition → the position at which it has.

        Raises:
            RecoveryRefused: some did not, or the request was ended.
        """
        until = time.monotonic() + ASKED / 2
        while True:
            async with self._lock:
                with suppress(IllegalStateError):
                    await self._reading.tick()
            log = self._group.log
            request = log.requests.get(id)
            if (active := log.active()) is not None and active is not request:
                raise RecoveryRefused(f"recovery {active.id} is under way: another one was faster")
            if request is not None and request.ended is not None:
                raise RecoveryRefused(f"it was ended: {request.ended}")
            positions, missing = dict[str, dict[int, int]](), list[str]()
            for topic in topics:
                for number in sorted(self._primary.partitions_for_topic(topic) or (-1,)):
                    at = None if request is None else log.stopped_at(request, (topic, number))
                    if at is None:
                        missing.append(f"{topic}/{number}")
                    else:
                        positions.setdefault(topic, {})[number] = at
            if not missing:
                return positions
            if time.monotonic() > until:
                raise RecoveryRefused(
                    f"{', '.join(missing[:10])} did not stop within {ASKED / 2:.0f} s: see that "
                    "their consumers run, are RecoveringConsumers, and their batches end"
                )
            await asyncio.sleep(0.05)

    async def check_retention(
        self, positions: Mapping[str, Mapping[int, int]], seconds: float
    ) -> None:
        """Raise RecoveryRefused if a primary keeps what is unread for less than a recovery takes.

        Args:
            positions: as of `stopped`.
            seconds: that it may take.
        """
        for topic, parts in positions.items():
            kept = await self._lookup.retention(topic)
            for number, position in parts.items():
                at = TopicPartition(topic, number)
                async with self._lock:
                    begin = await self._lookup.begin_of(at)
                    left = await self._lookup.seconds_left(at, position, kept)
                if begin > position or (left is not None and left < seconds):
                    raise RecoveryRefused(
                        f"{topic}/{number} keeps what is unread for {max(left or 0, 0):.0f} s more,"
                        f" and the recovery may take {seconds:.0f} s: raise retention.ms, or read "
                        "the primary first"
                    )
