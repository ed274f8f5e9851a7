"""A partition that views read: most of them together, some apart, each at its own position.

Views that read together share a batch and a commit unit. A view reads apart

- if its handler is awaited, since its time is not its own: the others do not wait for it;
- while it is halted, and after that until it has caught up with the others;
- if it is new, and the others are under way: it begins at the beginning;
- if workers without it, of another version of the topology, have had the partition since: it goes
  on where it stood.

Its position is a row of its own table. When it has caught up it reads with the others again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from aiokafka import TopicPartition
from mode import get_logger

from stores.view_state import TableError, TableFenced, TableUnavailable
from topology.declaration.source import Source
from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit
from topology.engine.intake import IntakeCounts
from topology.engine.partition import JoiningView, PartitionView, StreamStep
from topology.engine.state.positions import decode_positions
from topology.engine.state.rows import COUNTS, POSITIONS
from topology.engine.stream_task import StreamTask
from topology.engine.view_task import ViewTask
from topology.engine.wait_notes import InputWaits
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.context import WorkerContext
from topology.faust.worker.disk.table_freshness import in_step_row
from topology.faust.worker.disk.writing import write
from topology.faust.worker.open_view import open_view
from topology.faust.worker.partition import Crash, Partition
from topology.faust.worker.read_again import read_waits
from topology.faust.worker.reading.watermark import Watermark
from topology.faust.worker.runner import Runner
from topology.faust.worker.start_offset import clamp_to_log_start, committed_start
from topology.faust.worker.writing.writer import Writer
from topology.model.counts import left_behind
from topology.model.ending import end_tasks, wait_for_stop
from topology.model.partition_table import PartitionTable
from topology.sequencer.memory_budget import Budget

logger = get_logger(__name__)

OBJECT = 200
"""Bytes of what waits for each object in it that the collector looks at, about."""

OnHalted = Callable[[PartitionView], None]


class StreamPartition(Partition):
    """One runner for the views that read together, and one for each view that reads apart."""

    def __init__(
        self, source: TopicPartition, declared: Source, context: WorkerContext, crash: Crash
    ) -> None:
        super().__init__(source, context, crash)
        self._declared = declared
        self._views = context.topology.views_of(declared)
        self._shared_views = shared_views(self._views)
        # Workers have no way to tell an event that comes again in their view's arrivals topic.
        has_workers = any(view.work is not None for view in self._views)
        self._atomic = has_workers or context.settings.guarantee == "exactly_once"
        self._leaving: set[asyncio.Task[None]] = set()
        """Views that were halted and leave the others."""
        self._ending: set[asyncio.Task[None]] = set()
        """Runners whose views have joined the others."""
        self._open: dict[str, PartitionView] = {}

    async def open(self) -> list[Runner]:
        """Fence, restore, find the offset: in this order, as each relies on the last."""
        context = self._context
        self.budget = Budget(context.settings.waiting_bytes)
        self._limits = await context.limits(self.source.topic)
        writers = [self._writer()]
        try:
            await writers[0].start()
            tables = await context.tables.restore(self._views, self.source.partition)
            first, start, committed, taken = await committed_start(context, self.source)
            runners, rest = [], dict(tables)
            for view in self._views:
                table = tables[view.name]
                was_apart = decode_positions(table.get(POSITIONS)).input is not None
                if not was_apart and self._own(view, table, first, start) is None:
                    continue
                # An earlier owner may still run it apart, under this id: fence that off, and read
                # what it wrote until then, even where the view joins the others now.
                writer = self._writer(view.name)
                writers.append(writer)
                await writer.start()
                await context.tables.restore([view], self.source.partition)
                position = self._own(view, table, first, start)
                if position is None:
                    await wait_for_stop(writer.stop())
                else:
                    del rest[view.name]
                    await self._save_waits([view], {view.name: table}, writer, first)
                    runners.append(await self._standalone(view, table, position, writer))
            await self._save_waits(self._views, rest, writers[0], first)
            runners.insert(0, self._main(rest, start, committed, taken, writers[0]))
        except BaseException:
            await asyncio.gather(*(wait_for_stop(writer.stop()) for writer in writers))
            raise
        return runners

    def run(self, runner: Runner) -> None:
        runner.after_commit = self._note_known
        super().run(runner)

    def _note_known(self) -> None:
        used = 0 if self.budget is None else self.budget.used
        self._context.known.note(self.source, used // OBJECT)

    def _writer(self, view: str = "") -> Writer:
        return self._context.writer(self.source, view, atomic=self._atomic)

    async def _save_waits(
        self, views: Iterable[View], tables: Mapping[str, Any], writer: Writer, first: int
    ) -> None:
        """Make rows of what waited in memory only, and is in the input yet; `first` is the first
        offset that is there."""
        found = [
            waits
            for view in views
            if view.name in tables and (waits := InputWaits(view, tables[view.name]))
        ]
        if not found:
            return
        start = max(first, min(each.first for each in found))
        await read_waits(self._context.app, self.source, found, start)
        unit = CommitUnit(self.source.topic, self.source.partition, now=wall())
        for each in found:
            each.save(unit)
        ends = await writer.commit(unit, self.source)
        for name, rows in unit.rows.items():
            await write(tables[name], [*rows, in_step_row(wall())], ends.get(name))
        logger.info(
            "%s was read again from offset %d: %d events wait that had no rows yet",
            self.source, start, sum(len(each.rows) for each in found),
        )  # fmt: skip
        for report in unit.reports:
            logger.error("%s", report)

    def _own(self, view: View, table: PartitionTable, first: int, start: int) -> int | None:
        """The position of a view that reads apart, None for one that reads with the others."""
        positions = decode_positions(table.get(POSITIONS))
        if positions.input is None:
            if (counts := table.get(COUNTS)) is None:
                # It has not seen anything yet.
                return first if start > first or view not in self._shared_views else None
            missed = left_behind(counts, start)
            if missed is not None:
                return clamp_to_log_start(self.source, missed, first)
            return None if view in self._shared_views else start
        position = clamp_to_log_start(self.source, positions.input, first)
        if view in self._shared_views and positions.halted is None and position == start:
            return None
        return position

    def _main(
        self,
        tables: Mapping[str, Any],
        start: int,
        committed: int,
        taken: IntakeCounts,
        writer: Writer,
    ) -> Runner:
        task = self._task(tables, start, taken, apart=False)
        step = self._step(task, self._halted)
        for name, view_task in task.views.items():
            step.admit(self._opened(view_task, tables[name]))
        context = self._context
        refusals = context.refusals(self.source)
        return Runner(
            self.source, step, writer, context.shared_reader, start, refusals=refusals,
            batch=context.settings.batch, committed=committed,
        )  # fmt: skip

    async def _standalone(self, view: View, table: Any, start: int, writer: Writer) -> Runner:
        task = self._task({view.name: table}, start, None, apart=True)
        view_task = task.views[view.name]
        if table.get(COUNTS) is None and start:
            view_task.state.positions.began = start
        return await self._run_standalone(task, self._opened(view_task, table), start, writer)

    async def _run_standalone(
        self, task: StreamTask, view: PartitionView, start: int, writer: Writer
    ) -> Runner:
        step = self._step(task)
        task.views[view.name] = view.task
        step.views[view.name] = view
        reader = await self._context.reader(view.name)
        refusals = self._context.refusals(self.source)
        runner = Runner(
            self.source, step, writer, reader, start, view.name, refusals,
            batch=self._context.settings.batch,
        )  # fmt: skip
        logger.info("view %s reads %s by itself, from offset %d", view.name, self.source, start)
        if view.task.view in self._shared_views:
            runner.ends = lambda: self._caught_up(runner, view)
        return runner

    def _task(
        self, tables: Mapping[str, Any], start: int, taken: IntakeCounts | None, *, apart: bool
    ) -> StreamTask:
        """The engine's task of the views that have these tables."""
        context, number = self._context, self.source.partition
        try:
            return StreamTask(
                context.topology, self._declared, number, tables,
                position=start, intake=taken, apart=apart, now=wall(), budget=self.budget,
                limits=self._limits, atomic=self._atomic,
            )  # fmt: skip
        except (TableFenced, TableUnavailable):
            raise
        except (TableError, ValueError) as error:
            for view in tables:
                context.tables.spoilt(view, number)
            raise TableError(f"the tables of {self.source} are rebuilt: {error}") from error

    def _opened(self, task: ViewTask, table: Any) -> PartitionView:
        found = open_view(self._context, task, table, self.source.partition)
        self._open[found.name] = found
        return found

    def _step(self, task: StreamTask, on_halted: OnHalted | None = None) -> StreamStep:
        barriers, number = self._context.barriers, self.source.partition
        watermark = Watermark(lambda: barriers.begin(self._declared, number))
        return StreamStep(task, (), watermark, wall, asyncio.gather, on_halted)

    # -- views that leave the others, and come back

    def _halted(self, view: PartitionView) -> None:
        """A view was halted: it waits apart, at its own position."""
        if not self.stopping and self._again is None:
            _in_background(self._leave(view), self._leaving)

    async def _leave(self, view: PartitionView) -> None:
        writer = self._writer(view.name)
        try:
            await writer.start()
            start = view.task.state.positions.input
            assert start is not None
            task = self._task({}, start, None, apart=True)
            runner = await self._run_standalone(task, view, start, writer)
        except BaseException as error:
            await wait_for_stop(writer.stop())
            if not isinstance(error, Exception):
                raise
            self.failed(error)
        else:
            self.run(runner)

    def _caught_up(self, runner: Runner, view: PartitionView) -> bool:
        """Whether the view's own runner can end: the others will take it in."""
        main, step = self.runners.get(""), runner.step
        if main is None or step.halted or step.unfinished:
            return False
        if not main.loop.join(JoiningView(view, runner.loop.position)):
            return False
        logger.info("view %s reads %s with the others again", view.name, self.source)
        _in_background(runner.stop(0), self._ending)
        return True

    async def recover(self, error: TableError) -> None:
        # A table without room, or whose server is away, is right, only behind the changelog, and
        # goes on when it is opened again; so does one that another worker has claimed, if this one
        # still has the partition then. Any other is rebuilt.
        tables = self._context.tables
        right = isinstance(error, TableUnavailable | TableFenced)
        recover = tables.close if right else tables.discard
        for view in self._views:
            await recover(view.name, self.source.partition)

    async def _close(self, grace: float) -> None:
        # Whoever opens it next starts a view that leaves the others by itself, from its row.
        await end_tasks(*self._leaving)
        await super()._close(grace)
        self._context.known.note(self.source, 0)
        await asyncio.gather(*(view.rebuilds.stop() for view in self._open.values()))

    async def stop(self, grace: float) -> None:
        await super().stop(grace)
        for view in self._open.values():
            view.side_inputs.stop()
        if self._ending:
            await asyncio.wait(self._ending)


def _in_background(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


def shared_views(views: Iterable[View]) -> list[View]:
    """The views that share their steps: those that need not be awaited, or else the first one."""
    views = list(views)
    return [view for view in views if not view.is_async] or views[:1]
