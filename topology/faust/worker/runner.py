"""One input partition on this worker: fetch a batch, run a step, commit the unit, again."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from mode import get_logger

from topology.engine.commit_unit import CommitUnit
from topology.engine.view_task import ViewTask
from topology.faust.kafka.reader import Reader
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.refusals import REFUSALS, Refusals
from topology.faust.worker.steps import Step
from topology.faust.worker.writer import Writer
from topology.model.event import Message
from topology.model.partition_table import PartitionTable
from topology.model.printable import printable

logger = get_logger(__name__)

T = TypeVar("T")

IDLE = 0.5
"""Seconds that a fetch waits for records before timers are looked at."""

FEW = 500
"""Records that leave room for more in a step."""
AT_ONCE = 0.001
"""Seconds in which a fetch brings only what the client had already."""
FRESH = 0.005
"""Seconds that a step waits for what came since."""

STOP = 5.0
"""Seconds that stopping a client may take."""


@dataclass(frozen=True, slots=True)
class Joining:
    """A view that has processed all before `offset` by itself, and nothing behind it."""

    name: str
    task: ViewTask
    table: PartitionTable
    offset: int


class Runner:
    """Runs one partition until it is told to stop, or fails.

    source: the input partition. taken: the offset behind what is read and in hand. view: the one
    view that it runs apart from the others, empty where it runs what reads together. refusals: find
    what handlers sent that Kafka refuses.
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
    ) -> None:
        self.source = source
        self.step = step
        self.writer = writer
        self.view = view
        self.taken = start
        self._reader = reader
        self._refusals = refusals
        self._committed = start
        self._stopping = False
        self._waiting = False
        self._joining: list[Joining] = []
        self.caught_up: Callable[[], bool] = lambda: False
        """Called between steps; true ends the runner: another one goes on with its view."""
        self.task: asyncio.Task[None] | None = None

    def start(self, on_end: Callable[["Runner", BaseException | None], None]) -> None:
        self.task = asyncio.create_task(self.run(), name=f"sequitur {self.source} {self.view}")

        def ended(task: asyncio.Task[None]) -> None:
            # Whoever stops it has let go of it before, and does not ask. A client that is cut off
            # may end as cancelled by itself: then nobody would read the partition.
            cut_off = ConnectionError("it was cut off from the broker")
            on_end(self, cut_off if task.cancelled() else task.exception())

        self.task.add_done_callback(ended)

    async def run(self) -> None:
        self._reader.seek(self.source, self.taken)
        step, reads = self.step, True
        while not self._stopping:
            await step.poll_side_inputs()
            if (unit := await step.next_command_unit()) is not None:
                await self._commit(unit)
                continue
            if step.halted:
                self._reader.pause(self.source)
                reads = False
                await self._rest(asyncio.sleep(IDLE))
                continue
            if not reads:
                self._reader.seek(self.source, self.taken)
                reads = True
            if step.unfinished:
                await self._commit(await step.take([]))
                continue
            idle = 0.0 if step.has_urgent_work else max(0.0, min(IDLE, (step.due - wall()) / 1000))
            before = self.taken
            records = await self._rest(self._fetch(idle))
            if records:
                self.taken = records[-1].offset + 1
            for part in self._parts(records):
                await self._commit(await step.take(part))
            # Transaction markers take offsets too, and bring no records.
            self.taken = position = await self._reader.position(self.source)
            if (again := records[0].offset if records else position) < before:
                logger.warning(
                    "%s: read up to offset %d, and ends before that now: it was deleted and made "
                    "again, and is read from offset %d on",
                    self.source, before, again,
                )  # fmt: skip
            self._admit(position)
            unit = await step.fire(position)
            if step.has_unsaved_progress or (position > self._committed and not records):
                # The committed offset follows the position, so that a partition that is read to
                # its end also looks so; and so does a view's row that says how it reads.
                unit = step.move(self.source, position, unit)
            if unit is not None:
                await self._commit(unit)
            if self.caught_up():
                break

    async def _fetch(self, idle: float) -> Sequence[Message]:
        """What there is to read, waiting `idle` seconds for it.

        The client asks for more as soon as it is taken from, so after a step there are only those
        records that came right at its start. What came during it is asked for now, and shares the
        step with them rather than waiting for the next one.
        """
        began = time.monotonic()
        records = await self._reader.fetch(self.source, idle)
        if 0 < len(records) < FEW and time.monotonic() - began < AT_ONCE:
            more = await self._reader.fetch(self.source, FRESH)
            return [*records, *more] if more else records
        return records

    async def _rest(self, waiting: Awaitable[T]) -> T:
        """Wait for something with no step in hand."""
        self._waiting = True
        try:
            return await waiting
        finally:
            self._waiting = False

    def join(self, joining: "Joining") -> bool:
        """Take a view in that is done with all before an offset; False if that is read already."""
        if self._stopping or joining.offset < self.taken:
            return False
        self._joining.append(joining)
        return True

    def _parts(self, records: Sequence[Message]) -> Iterator[Sequence[Message]]:
        """The batch, split where a view joins; the view is taken in between."""
        while records:
            self._admit(records[0].offset)
            ahead = min((j.offset for j in self._joining), default=None)
            if ahead is None or records[-1].offset < ahead:
                yield records
                return
            at = next(i for i, record in enumerate(records) if record.offset >= ahead)
            yield records[:at]
            records = records[at:]

    def _admit(self, position: int) -> None:
        """Take in the views that have read all before `position`, as this runner has."""
        for joining in [j for j in self._joining if j.offset <= position]:
            self._joining.remove(joining)
            self.step.admit(joining.name, joining.task, joining.table)

    async def _commit(self, unit: CommitUnit) -> None:
        if not unit:
            return
        try:
            ends = await self.writer.commit(unit, self.source)
        except REFUSALS as error:
            if self._refusals is not None:
                await self._note_refused(self._refusals, unit, error)
            raise
        if unit.next_offset is not None:
            self._committed = unit.next_offset
        await self.step.committed(unit, ends)
        for report in unit.reports:
            # A report is made of lines; nothing else in it may tell a terminal what to do.
            logger.warning("%s", "\n".join(printable(each, 4000) for each in report.split("\n")))
        # One breath per step, so that no partition starves the others or the heartbeat.
        await asyncio.sleep(0)

    async def _note_refused(self, refusals: Refusals, unit: CommitUnit, error: KafkaError) -> None:
        try:
            await refusals.note(unit, error)
        except KafkaError as why:
            logger.warning(
                "%s: Kafka refuses a message (%r), and which one cannot be found out: %r; the "
                "worker needs the right to transactional ids that begin with its group's name",
                self.source, error, why,
            )  # fmt: skip

    async def stop(self, grace: float) -> None:
        """Finish the step in hand within `grace` seconds, else drop it, and stop."""
        self._stopping = True
        task = self.task
        if task is not None and not task.done():
            if not self._waiting:
                await asyncio.wait([task], timeout=grace)
            task.cancel()
            await asyncio.wait([task], timeout=STOP)
        self._reader.pause(self.source)
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
