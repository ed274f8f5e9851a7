"""Orders and handles a batch in all views of a by-stream partition."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from topology.engine.commands.execute import obey
from topology.engine.commit_unit import CommitUnit
from topology.engine.partition.ports import Clock, GapWatermark, Gather, Work
from topology.engine.partition.steps import INFINITE, Step
from topology.engine.partition.view import PartitionView
from topology.engine.stream_task import StreamTask
from topology.model.event import Message
from topology.model.partition_table import PartitionTable


class StreamStep(Step):
    """Orders and handles a by-stream partition, each view by way of its agent.

    Args:
        task: The engine's task of the partition.
        views: What the partition has of the views that the task runs.
        watermark: How far all that has arrived is read.
        clock: The wall clock.
        gather: Waits until all views have done their part of a step.
        on_halted: Takes a view that was halted and so leaves the others; without it the view stays,
            and takes no more records.
    """

    def __init__(
        self,
        task: StreamTask,
        views: Iterable[PartitionView],
        watermark: GapWatermark,
        clock: Clock,
        gather: Gather,
        on_halted: Callable[[PartitionView], None] | None = None,
    ) -> None:
        self.task = task
        self.views = {view.name: view for view in views}
        self._watermark = watermark
        self._clock = clock
        self._gather = gather
        self._on_halted = on_halted

    def table(self, name: str) -> PartitionTable:
        table: PartitionTable = self.views[name].table
        return table

    async def take(
        self, records: Sequence[Message], due_by: Mapping[str, int] | None = None
    ) -> CommitUnit:
        """The unit of a batch. due_by: of the views that give up gaps, those due by then."""
        task, now = self.task, self._clock()
        unit, events = task.begin(records, now)

        def work_of(view: PartitionView) -> Work:
            async def work() -> None:
                task = view.task
                again = view.side_inputs.take_redeliveries(now)
                back = task.take_redeliveries(again, now) if again else ()
                until = due_by.get(view.name) if due_by else None
                if task.view.is_async:
                    await task.arun(events, unit, until, back)
                else:
                    task.run(events, unit, until, back)

            return work

        await self._gather(*(view.dispatch(work_of(view)) for view in self.views.values()))
        task.finish(unit)
        return unit

    async def poll_side_inputs(self) -> None:
        for view in self.views.values():
            await view.side_inputs.poll(self._clock())
            view.rebuilds.poll(self.task.position)

    async def next_command_unit(self) -> CommitUnit | None:
        for view in self.views.values():
            if lost := view.side_inputs.take_lost():
                place = self.task.source.by_stream, self.task.partition
                unit = CommitUnit(*place, now=self._clock())
                view.task.lose_redeliveries(lost, unit)
                self.task.finish(unit)
                return unit
            if records := view.side_inputs.take_commands():
                return await self._unit_of(view, partial(obey, view.task, records))
            if histories := view.rebuilds.take():
                return await self._unit_of(view, partial(view.rebuilds.rebuild, histories))
        return None

    async def _unit_of(
        self, view: PartitionView, work: Callable[[CommitUnit], Awaitable[Any]]
    ) -> CommitUnit:
        """The unit of some work of one view."""
        unit = CommitUnit(self.task.source.by_stream, self.task.partition, now=self._clock())

        async def do() -> None:
            await work(unit)

        await view.dispatch(do)
        self.task.finish(unit)
        return unit

    @property
    def due(self) -> float:  # type: ignore[override]
        now = self._clock()
        times = [
            min(view.task.retry_due, view.side_inputs.next_redelivery(now))
            for view in self.views.values()
        ]
        return min(times, default=INFINITE)

    async def fire(self, position: int) -> CommitUnit | None:
        now, views = self._clock(), self.views.values()
        due = [view for view in views if view.task.due <= now]
        if any(not view.side_inputs.expecting for view in due):
            watermark = self._watermark.reached(position)
            for view in due:
                if watermark is not None and view.task.due <= watermark:
                    await view.side_inputs.expect_redeliveries(watermark)
        # A gap waits while what is missing may be on its way back, in that view alone.
        drained = {view.name: await view.side_inputs.redeliveries_drained() for view in views}
        due_by = {name: watermark for name, watermark in drained.items() if watermark is not None}
        if due_by or self.due <= now:
            return await self.take([], due_by)
        return None

    @property
    def has_urgent_work(self) -> bool:  # type: ignore[override]
        return any(view.rebuilds.ready for view in self.views.values() if view.task.rebuilds)

    @property
    def has_unsaved_progress(self) -> bool:  # type: ignore[override]
        return self.task.joined

    @property
    def unfinished(self) -> bool:  # type: ignore[override]
        return self.task.unfinished

    @property
    def halted(self) -> bool:  # type: ignore[override]
        views = self.views.values()
        return self.task.apart and all(view.task.state.positions.halted for view in views)

    def move(self, position: int, unit: CommitUnit | None) -> CommitUnit:
        unit = CommitUnit(self.task.source.by_stream, self.task.partition) if unit is None else unit
        self.task.move(position, unit)
        self.task.finish(unit)
        return unit

    def committed(self) -> None:
        if self._on_halted is not None:
            for name in self.task.dismiss():
                self._on_halted(self.views.pop(name))

    def admit(self, view: PartitionView) -> None:
        self.task.admit(view.name, view.task)
        self.views[view.name] = view

    def last_unit(self) -> CommitUnit:
        unit = CommitUnit(self.task.source.by_stream, self.task.partition, now=self._clock())
        for view in self.views.values():
            view.task.state.save(unit)
        return unit

    def stop(self) -> None:
        self._watermark.stop()
