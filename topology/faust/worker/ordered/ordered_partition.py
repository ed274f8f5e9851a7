"""A partition whose events are handled side by side: fenced, restored, its runner made."""

from collections.abc import Iterator

from aiokafka import TopicPartition
from mode import get_logger

from stores.view_state.table import TableError, TableFenced, TableUnavailable
from topology.declaration.ordered_stage import OrderedStage
from topology.engine.commit_unit import CommitUnit
from topology.engine.staged_effects import StagedEffects
from topology.engine.state.rows import BUFFERS, HOLES, WORK, decode_holes, split_buffer_key
from topology.engine.state.work_status import decode_work_status
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.context import WorkerContext
from topology.faust.worker.disk.table_freshness import in_step_row
from topology.faust.worker.disk.writing import write
from topology.faust.worker.ordered.lease import DatabaseAway
from topology.faust.worker.ordered.lent_connections import LentConnections
from topology.faust.worker.ordered.ordered_runner import OrderedRunner
from topology.faust.worker.partition import Crash, Partition
from topology.faust.worker.runner import Runner
from topology.faust.worker.start_offset import committed_start
from topology.faust.worker.writing.writer import Writer
from topology.model.ending import wait_for_stop
from topology.model.partition_table import PartitionTable, Row
from topology.ordered_commit import OffsetRanges, OrderedCommit

logger = get_logger(__name__)


class OrderedPartition(Partition):
    """One runner, with a table of what is done ahead, of streams' states and of parked events."""

    def __init__(
        self, source: TopicPartition, stage: OrderedStage, context: WorkerContext, crash: Crash
    ) -> None:
        super().__init__(source, context, crash)
        self._stage = stage
        self.away: str | None = None
        """What the view's database said when the partition was to start, until it is there."""

    @property
    def stage(self) -> OrderedStage:
        """Whose events are handled."""
        return self._stage

    async def open(self) -> list[Runner]:
        """Fence, restore, find the offset: in this order, as each relies on the last."""
        context, stage = self._context, self._stage
        writer = context.writer(self.source)
        try:
            if stage.arrivals:
                await context.orders.start()
            await writer.start()
            tables = await context.tables.restore([stage], self.source.partition)
            table = tables[stage.name]
            first, start, _, _ = await committed_start(context, self.source)
            end = await context.shared_reader.end(self.source)
            core = self._core(table, first, start, end)
            effects = StagedEffects(stage, table, _parked(table))
            try:
                lent = await self._lent(core)
            except DatabaseAway as error:
                self.away = str(error)
                await self._write_down(writer, table, self.away)
                raise
            self.away = None
        except BaseException:
            await wait_for_stop(writer.stop())
            raise
        return [OrderedRunner(self.source, stage, writer, context, core, effects, table, lent)]

    async def _write_down(self, writer: Writer, table: PartitionTable, away: str) -> None:
        """Let those who look at the workers know that a partition waits for its database."""
        status = decode_work_status(table.get(WORK))
        if status.away == away:
            return
        status.away, status.when = away, wall()
        rows: list[Row] = [(WORK, status.encode())]
        unit = CommitUnit(*self.source)
        unit.rows[self._stage.name], unit.now = rows, wall()
        ends = await writer.commit(unit, self.source)
        await write(table, [*rows, in_step_row(wall())], ends.get(self._stage.name))

    async def _lent(self, core: OrderedCommit) -> LentConnections | None:
        """The connections that are lent, of a database that says what Kafka has not got."""
        view, work = self._stage.view, self._stage.work
        if work.database is None:
            return None
        url = self._context.databases[work.database]
        lent = LentConnections(url, f"{view.topology}.{view.name}", self.source, work.workers)
        position, done = core.position, core.done
        try:
            await lent.open(lambda offset: offset < position or offset in done)
        except BaseException:
            await lent.close()
            raise
        return lent

    def _core(self, table: PartitionTable, first: int, start: int, end: int) -> OrderedCommit:
        context, rules = self._context, self._stage.work.rules
        position, done = start, OffsetRanges()
        if (row := table.get(HOLES)) is not None:
            position, done = decode_holes(row)
            if position > end:
                start = start if start <= end else first
                logger.warning(
                    "%s was deleted and made again: it had been done up to offset %d, and is now "
                    "read from offset %d on", self.source, position, start,
                )  # fmt: skip
                position, done = start, OffsetRanges()
                context.losses.pop(self.source, None)
        still = context.running.get(self.source)
        core = OrderedCommit(
            rules,
            done,
            position,
            numbers=context.grant_numbers,
            still_running=() if still is None else still.still_running,
        )
        if first > position and (lost := core.lost(position, first)):
            logger.error(
                "%s: %d offsets from %d on were deleted by retention before they were done",
                self.source, lost, position,
            )  # fmt: skip
        context.running[self.source] = core
        return core

    async def recover(self, error: TableError) -> None:
        # As with a view's table: what is right goes on when it is opened again.
        tables = self._context.tables
        right = isinstance(error, TableUnavailable | TableFenced)
        await (tables.close if right else tables.discard)(self._stage.name, self.source.partition)


def _parked(table: PartitionTable) -> Iterator[tuple[str, int]]:
    for key, _ in table.scan(*BUFFERS):
        yield split_buffer_key(key)
