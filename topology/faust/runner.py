"""One input partition on this worker: fetch a batch, run a step, commit the unit, again."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition
from mode import get_logger

from stores.rocksdb import RocksTable
from topology.event import Message
from topology.faust.horizon import Horizon
from topology.faust.writer import Writer
from topology.stream_task import RekeyTask, StreamTask
from topology.unit import CommitUnit
from topology.view_task import ViewTask

logger = get_logger(__name__)

IDLE = 0.5
"""Seconds that a fetch waits for records before timers are looked at."""

STOP = 5.0
"""Seconds that stopping a client may take."""

Fetch = Callable[[TopicPartition, float], Awaitable[Sequence[Message]]]
"""(partition, timeout in seconds) → the next records, empty if there are none in that time."""


class Step:
    """What a runner does with a batch: make it a commit unit. Subclasses know the task."""

    async def take(self, records: Sequence[Message]) -> CommitUnit:
        """The unit of a batch."""
        raise NotImplementedError

    async def fire(self, position: int) -> CommitUnit | None:
        """The unit of gaps that are due and may be given up, all before `position` being read."""
        return None

    @property
    def unfinished(self) -> bool:
        """Whether a step has to follow before more records are taken."""
        return False

    def committed(self, unit: CommitUnit, ends: Mapping[str, int]) -> None:
        """The unit is durable; `ends` are the changelog offsets behind its rows, by view."""

    def stop(self) -> None:
        """End what runs in the background."""


class RekeyStep(Step):
    """Re-keys a source topic's partition, by way of the source's agent."""

    def __init__(self, task: RekeyTask, do: Callable[[Callable[[], Awaitable[None]]], Any]) -> None:
        self.task = task
        self._do = do

    async def take(self, records: Sequence[Message]) -> CommitUnit:
        made: list[CommitUnit] = []

        async def work() -> None:
            made.append(self.task.process(records, wall()))

        await self._do(work)
        return made[0]


class StreamStep(Step):
    """Orders and handles a by-stream partition, each view by way of its agent."""

    def __init__(
        self,
        task: StreamTask,
        tables: Mapping[str, RocksTable],
        do: Mapping[str, Callable[[Callable[[], Awaitable[None]]], Any]],
        horizon: Horizon,
    ) -> None:
        self.task = task
        self.tables = tables
        self._do = do
        self._horizon = horizon

    async def take(self, records: Sequence[Message], horizon: int | None = None) -> CommitUnit:
        task = self.task
        unit, events = task.begin(records, wall())

        def work_of(view: ViewTask) -> Callable[[], Awaitable[None]]:
            async def work() -> None:
                if view.view.is_async:
                    await view.arun(events, unit, horizon)
                else:
                    view.run(events, unit, horizon)

            return work

        await asyncio.gather(*(self._do[n](work_of(v)) for n, v in task.views.items()))
        return unit

    async def fire(self, position: int) -> CommitUnit | None:
        if self.task.due > wall():
            return None
        horizon = self._horizon.reached(position)
        if horizon is None or self.task.due > horizon:
            return None
        return await self.take([], horizon)

    @property
    def unfinished(self) -> bool:
        return self.task.unfinished

    def committed(self, unit: CommitUnit, ends: Mapping[str, int]) -> None:
        for view, rows in unit.rows.items():
            self.tables[view].write(rows, ends.get(view))

    def stop(self) -> None:
        self._horizon.stop()


class Runner:
    """Runs one partition until it is told to stop, or fails."""

    def __init__(
        self,
        source: TopicPartition,
        step: Step,
        writer: Writer,
        fetch: Fetch,
        position: Callable[[TopicPartition], Awaitable[int]],
        committed: int,
    ) -> None:
        self.source = source
        self.step = step
        self.writer = writer
        self._fetch = fetch
        self._position = position
        self._committed = committed
        self._stopping = False
        self._waiting = False
        self.task: asyncio.Task[None] | None = None

    def start(self, on_end: Callable[["Runner", BaseException | None], None]) -> None:
        self.task = asyncio.create_task(self.run(), name=f"sequitur {self.source}")

        def ended(task: asyncio.Task[None]) -> None:
            on_end(self, None if task.cancelled() else task.exception())

        self.task.add_done_callback(ended)

    async def run(self) -> None:
        step = self.step
        while not self._stopping:
            if step.unfinished:
                await self._commit(await step.take([]))
                continue
            self._waiting = True
            try:
                records = await self._fetch(self.source, IDLE)
            finally:
                self._waiting = False
            if records:
                await self._commit(await step.take(records))
            position = await self._position(self.source)
            unit = await step.fire(position)
            if position > self._committed and not records:
                # Transaction markers take offsets too, and bring no records: the committed offset
                # follows the position, so that a partition read to its end also looks so.
                unit = unit or CommitUnit(*self.source)
                unit.next_offset = position
            if unit is not None:
                await self._commit(unit)

    async def _commit(self, unit: CommitUnit) -> None:
        if not unit:
            return
        ends = await self.writer.commit(unit, self.source)
        if unit.next_offset is not None:
            self._committed = unit.next_offset
        self.step.committed(unit, ends)
        for report in unit.reports:
            logger.warning("%s", report)
        # One breath per step, so that no partition starves the others or the heartbeat.
        await asyncio.sleep(0)

    async def stop(self, grace: float) -> None:
        """Finish the step in hand within `grace` seconds, else drop it, and stop."""
        self._stopping = True
        task = self.task
        if task is not None and not task.done():
            if not self._waiting:
                await asyncio.wait([task], timeout=grace)
            task.cancel()
            await asyncio.wait([task], timeout=STOP)
        self.step.stop()
        await stopped(self.writer.stop())


async def stopped(stopping: Awaitable[None]) -> None:
    """Wait for a client to stop, but not for ever, and whatever it raises: its broker may be gone.

    As a task of its own, because a client whose fetch failed a moment before ends as cancelled,
    which must not pass for a cancellation of whoever waits here.
    """
    task = asyncio.ensure_future(stopping)
    await asyncio.wait([task], timeout=STOP)
    if not task.done():
        task.cancel()
        logger.warning("a Kafka client did not stop within %.0f s", STOP)
    elif not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("a Kafka client did not stop in order: %r", error)


def wall() -> int:
    """The wall clock in ms."""
    return int(time.time() * 1000)
