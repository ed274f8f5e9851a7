"""What a runner does with a batch: re-key it, or order and handle it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from aiokafka import TopicPartition

from topology.engine.commands.execute import obey
from topology.engine.commit_unit import CommitUnit
from topology.engine.intake import encode_intake
from topology.engine.stream_task import RekeyTask, StreamTask
from topology.engine.view_task import ViewTask
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.disk.in_step import in_step_row
from topology.faust.worker.disk.writing import write
from topology.faust.worker.rebuilds import Rebuilds
from topology.faust.worker.side_inputs import SideInputs
from topology.faust.worker.watermark import Watermark
from topology.model.event import Message
from topology.model.partition_table import PartitionTable
from topology.view_rebuild.history import History
from topology.view_rebuild.stream_rebuild import arebuild, rebuild

Do = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
"""Has an agent do some work, and waits until it is done."""


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

    async def poll_side_inputs(self) -> None:
        """Read what there is beside the input, now and then."""

    async def next_command_unit(self) -> CommitUnit | None:
        """The unit of what operators told a view since, or of streams that are rebuilt."""
        return None

    @property
    def due(self) -> float:
        """When something is to be done without new records (ms), infinite if nothing is."""
        return float("inf")

    @property
    def has_urgent_work(self) -> bool:
        """Whether something is to be told soon, so that no fetch should wait for records."""
        return False

    @property
    def has_unsaved_progress(self) -> bool:
        """Whether something is to be made durable, though nothing came."""
        return False

    def move(self, source: TopicPartition, position: int, unit: CommitUnit | None) -> CommitUnit:
        """The unit that also says that all of `source` before `position` is read."""
        raise NotImplementedError

    async def committed(self, unit: CommitUnit, ends: Mapping[str, int]) -> None:
        """The unit is durable; `ends` are the changelog offsets behind its rows, by view."""

    def admit(self, name: str, task: ViewTask, table: PartitionTable) -> None:
        """Take in a view that has read as far by itself."""
        raise NotImplementedError

    @property
    def halted(self) -> bool:
        """Whether it takes no records."""
        return False

    def stop(self) -> None:
        """End what runs in the background."""


class RekeyStep(Step):
    """Re-keys a source topic's partition, by way of the source's agent."""

    def __init__(self, task: RekeyTask, do: Do) -> None:
        self.task = task
        self._do = do

    async def take(self, records: Sequence[Message]) -> CommitUnit:
        made: list[CommitUnit] = []

        async def work() -> None:
            made.append(self.task.process(records, wall()))

        await self._do(work)
        return made[0]

    def move(self, source: TopicPartition, position: int, unit: CommitUnit | None) -> CommitUnit:
        unit = CommitUnit(*source) if unit is None else unit
        unit.next_offset, unit.intake = position, encode_intake(self.task.intake)
        return unit


OnHalted = Callable[[str, ViewTask, PartitionTable], None]
"""(view, its task, its table): the view was halted and left the others."""


class StreamStep(Step):
    """Orders and handles a by-stream partition, each view by way of its agent.

    tables, do, side_inputs, rebuilds: of the views of the task, and of those that may join.
    on_halted: for views that read together; one that reads apart stays, and takes no more records.
    """

    def __init__(
        self,
        task: StreamTask,
        tables: Mapping[str, PartitionTable],
        do: Mapping[str, Do],
        side_inputs: Mapping[str, SideInputs],
        rebuilds: Mapping[str, Rebuilds],
        watermark: Watermark,
        on_halted: OnHalted | None = None,
    ) -> None:
        self.task = task
        self.tables = dict(tables)
        self._do = do
        self._side_inputs = side_inputs
        self._rebuilds = rebuilds
        self._watermark = watermark
        self._on_halted = on_halted

    async def take(
        self,
        records: Sequence[Message],
        due_by: Mapping[str, int] | None = None,
    ) -> CommitUnit:
        """The unit of a batch. due_by: of the views that give up gaps, those due by then."""
        task, now = self.task, wall()
        unit, events = task.begin(records, now)

        def work_of(view: ViewTask) -> Callable[[], Awaitable[None]]:
            async def work() -> None:
                name = view.view.name
                again = self._side_inputs[name].take_redeliveries(now)
                back = view.take_redeliveries(again, now) if again else ()
                until = due_by.get(name) if due_by else None
                if view.view.is_async:
                    await view.arun(events, unit, until, back)
                else:
                    view.run(events, unit, until, back)

            return work

        await asyncio.gather(*(self._do[n](work_of(v)) for n, v in task.views.items()))
        task.finish(unit)
        return unit

    async def poll_side_inputs(self) -> None:
        for name in self.task.views:
            await self._side_inputs[name].poll(wall())
            self._rebuilds[name].look(self.task.position)

    async def next_command_unit(self) -> CommitUnit | None:
        for name, view in self.task.views.items():
            if records := self._side_inputs[name].take_commands():
                return await self._obey(name, view, records)
            if histories := self._rebuilds[name].take():
                return await self._rebuild(name, view, histories)
        return None

    async def _rebuild(
        self, name: str, view: ViewTask, histories: Mapping[str, History]
    ) -> CommitUnit:
        unit = CommitUnit(self.task.source.by_stream, self.task.partition, now=wall())

        async def work() -> None:
            for stream, history in histories.items():
                if view.view.is_async:
                    await arebuild(view, stream, history, unit)
                else:
                    rebuild(view, stream, history, unit)

        await self._do[name](work)
        self.task.finish(unit)
        return unit

    async def _obey(self, name: str, view: ViewTask, records: Sequence[Message]) -> CommitUnit:
        unit = CommitUnit(self.task.source.by_stream, self.task.partition, now=wall())

        async def work() -> None:
            await obey(view, records, unit)

        await self._do[name](work)
        self.task.finish(unit)
        return unit

    @property
    def due(self) -> float:
        views = self.task.views.items()
        now = wall()
        times = [
            min(view.retry_due, self._side_inputs[name].next_redelivery(now))
            for name, view in views
        ]
        return min(times, default=float("inf"))

    async def fire(self, position: int) -> CommitUnit | None:
        now = wall()
        due = {name: view.due for name, view in self.task.views.items() if view.due <= now}
        if any(not self._side_inputs[name].expecting for name in due):
            watermark = self._watermark.reached(position)
            for name, at in due.items():
                if watermark is not None and at <= watermark:
                    await self._side_inputs[name].expect_redeliveries(watermark)
        # A gap waits while what is missing may be on its way back, in that view alone.
        came = {
            name: await self._side_inputs[name].redeliveries_drained() for name in self.task.views
        }
        due_by = {name: watermark for name, watermark in came.items() if watermark is not None}
        if due_by or self.due <= now:
            return await self.take([], due_by)
        return None

    @property
    def has_urgent_work(self) -> bool:
        views = self.task.views.items()
        return any(self._rebuilds[name].ready for name, view in views if view.rebuilds)

    @property
    def has_unsaved_progress(self) -> bool:
        return self.task.joined

    @property
    def unfinished(self) -> bool:
        return self.task.unfinished

    @property
    def halted(self) -> bool:
        return self.task.apart and all(v.state.positions.halted for v in self.task.views.values())

    def move(self, source: TopicPartition, position: int, unit: CommitUnit | None) -> CommitUnit:
        unit = CommitUnit(*source) if unit is None else unit
        self.task.move(position, unit)
        self.task.finish(unit)
        return unit

    async def committed(self, unit: CommitUnit, ends: Mapping[str, int]) -> None:
        # Nobody else could write to the changelogs until now: the unit has been committed.
        noted = in_step_row(wall())
        for view, rows in unit.rows.items():
            await write(self.tables[view], [*rows, noted], ends.get(view))
        if self._on_halted is not None:
            for name, task in self.task.dismiss().items():
                self._on_halted(name, task, self.tables.pop(name))

    def admit(self, name: str, task: ViewTask, table: PartitionTable) -> None:
        self.task.admit(name, task)
        self.tables[name] = table

    def stop(self) -> None:
        self._watermark.stop()
