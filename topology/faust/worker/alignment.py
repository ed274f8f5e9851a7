"""A partition of a source that is not keyed, held back while it is far ahead of the others."""

import asyncio
from collections.abc import Callable, Sequence

from aiokafka import TopicPartition

from topology.engine.intake import IntakeCounts
from topology.engine.partition import Alignment
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.group_reading import GroupReading
from topology.model.event import Message

LOOK = 0.005
"""Seconds between two looks whether it may go on."""
LIVE = 5_000
"""Milliseconds by which messages may be old without being a backlog, for which workers wait for
each other."""


class AlignedReading:
    """What a partition asks before it goes on. intake: where it counts how often it waited."""

    def __init__(
        self,
        alignment: Alignment,
        group: GroupReading,
        partition: TopicPartition,
        intake: IntakeCounts,
    ) -> None:
        self._alignment, self._group = alignment, group
        self._partition, self._intake = partition, intake

    async def admit(self, records: Sequence[Message], caught_up: Callable[[int], bool]) -> None:
        """Wait until the partition may go on with these records.

        caught_up: whether there is nothing from an offset on.
        """
        alignment, partition = self._alignment, self._partition
        if not records:
            alignment.note(partition, None, wall())
            return
        first, last, passed = records[0].timestamp, records[-1], alignment.passed
        if not alignment.may_take(partition, first, wall()):
            alignment.note(partition, first, wall())
            self._intake.held += 1
            while not alignment.may_take(partition, first, wall()):
                await asyncio.sleep(LOOK)
            self._intake.passed += alignment.passed - passed
        if first < wall() - LIVE:
            await self._wait_for_other_workers()
        self._intake.time = last.timestamp
        nothing_left = caught_up(last.offset + 1)
        alignment.note(partition, None if nothing_left else last.timestamp, wall())

    async def _wait_for_other_workers(self) -> None:
        group = self._group
        if not await group.is_ahead():
            return
        passed = group.passed
        self._intake.held += 1
        while await group.is_ahead():
            await asyncio.sleep(LOOK)
        self._intake.passed += group.passed - passed
