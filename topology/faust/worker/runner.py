"""Runs one input partition on this worker: the engine's loop, on Kafka and in a task."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from mode import get_logger

from stores.view_state import TableError
from topology.engine.commit_unit import CommitUnit
from topology.engine.partition import PartitionLoop, Step
from topology.faust.kafka.reader import USUAL, AssignedPartition, Reader
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.disk.table_freshness import in_step_row
from topology.faust.worker.disk.writing import write
from topology.faust.worker.reading.pace import CAUGHT_UP, Pace
from topology.faust.worker.spans import tell_spans
from topology.faust.worker.start_offset import clamp_to_log_start
from topology.faust.worker.writing.refusals import REFUSALS, Refusals
from topology.faust.worker.writing.writer import Writer
from topology.model.ending import wait_for_stop
from topology.model.event import Message
from topology.model.printable import printable

logger = get_logger(__name__)

STOP = 5.0
"""Seconds that stopping a client may take."""


class Admission(Protocol):
    """What a partition asks before it goes on with records."""

    async def admit(self, records: Sequence[Message], caught_up: Callable[[], bool]) -> None:
        """Wait until it may go on with these; `caught_up`: is there nothing behind them?"""


class Runner:
    """Runs one partition until it is told to stop, or fails; the loop's host.

    Args:
        source: The input partition.
        step: What is done with its batches.
        writer: Makes units durable.
        reader: Reads the input.
        start: The offset to start at.
        view: The one view that it runs apart from the others; empty where it runs what reads
            together.
        refusals: Finds the messages of handlers that Kafka refuses.
        alignment: Holds it back while it is far ahead of others, or has no rules.
        batch: The most records of a step.
        committed: The offset that the group has committed; see `PartitionLoop`.
    """

    def __init__(
        self,
        source: TopicPartition,
        step: Step,
        writer: Writer,
        reader: Reader,
        start: int,
        view: str = "",
        refusals: Refusals | None = None,
        alignment: Admission | None = None,
        batch: int = USUAL,
        committed: int | None = None,
    ) -> None:
        self.source = source
        self.step = step
        self.writer = writer
        self.view = view
        self._input = _Input(reader, source, alignment, batch)
        self._refusals = refusals
        self.loop = PartitionLoop(step, self._input, self, wall, start, committed)
        self.ends: Callable[[], bool] = lambda: False
        """Called between steps; true ends the runner: another one goes on with its view."""
        self.took: Callable[[float], None] = lambda seconds: None
        """Is told of each commit's time."""
        self.after_commit: Callable[[], None] = lambda: None
        """Called behind each commit."""
        self.task: asyncio.Task[None] | None = None
        self._left = False
        """Whether its view is another runner's by now."""

    @property
    def position(self) -> int:
        """The offset behind what is done."""
        return self.loop.position

    def start(self, on_end: Callable[["Runner", BaseException | None], None]) -> None:
        self.task = asyncio.create_task(self.run(), name=f"sequitur {self.source} {self.view}")

        def ended(task: asyncio.Task[None]) -> None:
            # Whoever stops it has let go of it before, and does not ask. A client that is cut off
            # may end as cancelled by itself: then nobody would read the partition.
            cut_off = ConnectionError("it was cut off from the broker")
            on_end(self, cut_off if task.cancelled() else task.exception())

        self.task.add_done_callback(ended)

    async def run(self) -> None:
        """Run the loop."""
        await self.loop.run()

    # -- what the loop asks of its host

    async def commit(self, unit: CommitUnit) -> None:
        try:
            began, at = time.perf_counter(), wall()
            ends = await self.writer.commit(unit, self.source)
            self.took(time.perf_counter() - began)
        except REFUSALS as error:
            if self._refusals is not None:
                await self._note_refused(self._refusals, unit, error)
            raise
        if self._refusals is not None:
            self._refusals.committed()
        if unit.traced:
            tell_spans(unit, at, wall())
        if unit.rows:
            # Nobody else could write to the changelogs until now: the unit has been committed.
            noted = in_step_row(wall())
            for name, rows in unit.rows.items():
                await write(self.step.table(name), [*rows, noted], ends.get(name))
        for report in unit.reports:
            # A report is made of lines; nothing else in it may tell a terminal what to do.
            logger.warning("%s", "\n".join(printable(each, 4000) for each in report.split("\n")))
        self.after_commit()
        # One breath per step, so that no partition starves the others or the heartbeat.
        await asyncio.sleep(0)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def caught_up(self) -> bool:
        self._left = self.ends()
        return self._left

    def log_truncated(self, position: int, first: int) -> None:
        logger.warning(
            "%s was deleted and made again: it had been read up to offset %d, and is now read from "
            "offset %d on",
            self.source, position, first,
        )  # fmt: skip

    async def jumped(self, position: int, first: int) -> None:
        clamp_to_log_start(self.source, position, min(first, await self._input.first()))

    async def _note_refused(self, refusals: Refusals, unit: CommitUnit, error: KafkaError) -> None:
        try:
            await refusals.note(unit, error)
        except KafkaError as why:
            logger.warning(
                "%s: Kafka refuses a message (%r). The worker cannot find out which one: %r; it "
                "needs the right to transactional ids that begin with its group's name",
                self.source, error, why,
            )  # fmt: skip

    async def stop(self, grace: float) -> None:
        """Finish the step in hand within `grace` seconds, else drop it, and stop.

        In time, what waits in memory only gets its rows: who has the partition next reads nothing
        again.
        """
        self.loop.stopping = True
        task, until = self.task, time.monotonic() + grace
        if task is not None and not task.done():
            if not self.loop.waiting:
                await asyncio.wait([task], timeout=grace)
            between = self.loop.waiting or (task.done() and not _failed(task))
            task.cancel()
            await asyncio.wait([task], timeout=STOP)
            if between and not self._left and (left := until - time.monotonic()) > 0:
                await self._save(left)
        self._input.pause()
        self.step.stop()
        await wait_for_stop(self.writer.stop())

    async def _save(self, seconds: float) -> None:
        unit = self.step.last_unit()
        try:
            if unit is not None and unit:
                await asyncio.wait_for(self.commit(unit), seconds)
        except (KafkaError, TableError, OSError) as error:
            logger.info("%s: what waits is read again at the next start: %r", self.source, error)


def _failed(task: asyncio.Task[None]) -> bool:
    return task.cancelled() or task.exception() is not None


class _Input(AssignedPartition):
    """The input partition, which is not read ahead of while it brings little.

    The client would ask for more as soon as it is taken from, and get what came right then, so that
    what comes during a step would have to wait for one step more. Where it brings much, records on
    their way save time.
    """

    def __init__(
        self,
        reader: Reader,
        partition: TopicPartition,
        alignment: Admission | None,
        batch: int,
    ) -> None:
        super().__init__(reader, partition)
        self._pace = Pace(batch)
        self._alignment = alignment

    async def fetch(self, timeout: float) -> Sequence[Message]:
        self._reader.resume(self._partition)
        records = await self._reader.fetch(self._partition, timeout, self._pace.next())
        self._pace.took(len(records))
        if 0 < len(records) < CAUGHT_UP:
            self.pause()
        if self._alignment is not None:
            position = records[-1].offset + 1 if records else await self.position()
            await self._alignment.admit(records, lambda: self.caught_up(position))
        return records
