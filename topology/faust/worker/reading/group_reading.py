"""A worker's looks at how far the others of its group are in a source that is not keyed."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Set

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from mode import get_logger

from topology.engine.partition import GroupAlignment
from topology.faust.kafka.offsets import Committed
from topology.faust.kafka.worker_clock import wall

logger = get_logger(__name__)

EVERY = 0.5
"""Seconds between two looks while the worker reads a backlog."""
WAITING = 0.2
"""Seconds between two looks while it waits."""

Unread = Callable[[], Awaitable[Mapping[TopicPartition, Committed | None]]]


class GroupReading:
    """Whether the worker is too far ahead of the others of its group.

    Args:
        alignment: Decides.
        unread: Says which partitions have something left to read, and how far the group is in them.
        own: Says which partitions are this worker's.
    """

    def __init__(
        self, alignment: GroupAlignment, unread: Unread, own: Callable[[], Set[TopicPartition]]
    ) -> None:
        self._alignment, self._unread, self._own = alignment, unread, own
        self._ahead, self._next = False, -math.inf
        self._looking = asyncio.Lock()
        self._told = 0

    def take_passed(self) -> int:
        """How often a partition of another worker was not waited for any longer, since the last
        call."""
        passed, self._told = self._alignment.passed - self._told, self._alignment.passed
        return passed

    async def is_ahead(self) -> bool:
        """Whether it is to wait, by the last look; the next one is made when it is time.

        Where the broker does not say how far the others are, it does not wait for them.
        """
        async with self._looking:
            if time.monotonic() >= self._next:
                try:
                    self._ahead = await self._look()
                except (KafkaError, OSError, TimeoutError) as error:
                    logger.warning("how far other workers are is not known: %r", error)
                    self._ahead = False
                self._next = time.monotonic() + (WAITING if self._ahead else EVERY)
        return self._ahead

    async def _look(self) -> bool:
        mine, own, others = (
            self._own(),
            dict[TopicPartition, float](),
            dict[TopicPartition, float](),
        )
        for partition, committed in (await self._unread()).items():
            reached = -math.inf if committed is None else committed.taken.time
            if reached:  # 0: its worker notes no times
                (own if partition in mine else others)[partition] = reached
        return self._alignment.is_ahead(own, others, wall())
