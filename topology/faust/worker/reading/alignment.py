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
SOME = 3
"""Records whose times are looked at, since that of one may be wrong."""


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

    async def admit(self, records: Sequence[Message], caught_up: Callable[[], bool]) -> None:
        """Wait until the partition may go on with these records.

        caught_up: whether there is nothing behind them. It is not where a fetch brings nothing as
        its broker is slow, or away.
        """
        alignment, partition = self._alignment, self._partition
        if not records:
            if caught_up():
                alignment.note(partition, None, wall())
            return
        first, last = _usual_time(records[:SOME]), _usual_time(records[-SOME:])
        if not self._may_take(first):
            alignment.note(partition, first, wall())
            self._intake.held += 1
            began = wall()
            while not self._may_take(first):
                if wall() - began >= LONGEST:
                    self._intake.passed += 1
                    alignment.overtake(partition, first)
                    break
                await asyncio.sleep(LOOK)
        if first < wall() - LIVE:
            await self._wait_for_other_workers()
        self._intake.time = last
        alignment.note(partition, None if caught_up() else last, wall())

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


def _usual_time(records: Sequence[Message]) -> int:
    """The time in the middle of those of some records."""
    return sorted(record.timestamp for record in records)[(len(records) - 1) // 2]
