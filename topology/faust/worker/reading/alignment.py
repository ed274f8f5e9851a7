"""A partition of a source that is not keyed, held back while it is far ahead of the others."""

import asyncio
from collections.abc import Callable, Sequence

from aiokafka import TopicPartition

from topology.engine.intake import IntakeCounts
from topology.engine.partition import Alignment
from topology.engine.partition.group_alignment import LONGEST
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.reading.group_reading import GroupReading
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
        first, last = records[0].timestamp, records[-1]
        if not self._may_take(first):
            alignment.note(partition, first, wall())
            self._intake.held += 1
            began = wall()
            while not self._may_take(first):
                if wall() - began >= LONGEST:
                    self._intake.passed += 1
                    break
                await asyncio.sleep(LOOK)
        if first < wall() - LIVE:
            await self._wait_for_other_workers()
        self._intake.time = last.timestamp
        nothing_left = caught_up(last.offset + 1)
        alignment.note(partition, None if nothing_left else last.timestamp, wall())

    def _may_take(self, time: int) -> bool:
        """Whether it may go on with records from this time on; whom that passes over is counted."""
        before = self._alignment.passed
        may = self._alignment.may_take(self._partition, time, wall())
        self._intake.passed += self._alignment.passed - before
        return may

    async def _wait_for_other_workers(self) -> None:
        if await self._is_ahead():
            self._intake.held += 1
            while await self._is_ahead():
                await asyncio.sleep(LOOK)

    async def _is_ahead(self) -> bool:
        ahead = await self._group.is_ahead()
        self._intake.passed += self._group.take_passed()
        return ahead
