"""Mistakes for the simulator to find: in the protocol, as other runners, and in the engine."""

from collections.abc import Iterator
from typing import Any

from topology.declaration.policies import RebuildStream
from topology.engine.commit_unit import CommitUnit
from topology.engine.partition import PartitionView, SideInputs, StreamStep
from topology.engine.state.late_events import LateEvents
from topology.engine.state.rows import COUNTS
from topology.engine.state.short_waits import ShortWaits
from topology.engine.state.view_state import ViewState
from topology.engine.stream_task import StreamTask
from topology.engine.wait_notes import InputWaits
from topology.model.event import Event
from topology.model.partition_table import Row
from topology.sequencer.sequencer import Step, step
from topology.testing.simulation.halting import ObeyingRunner
from topology.testing.simulation.runner import PartitionRunner
from topology.testing.simulation.watermark import FakeWatermark


class TableBeforeCommit(PartitionRunner):
    def commit_exactly_once(self, unit: CommitUnit) -> Iterator[str]:
        ends = {
            view: len(self.world.log.partition(self.world.changelog(view, unit.partition)).records)
            for view in unit.rows
        }
        yield from self.write_tables(unit, ends)
        yield from super().commit_exactly_once(unit)


class TableWithoutOffset(PartitionRunner):
    """The offset is written by itself, before the rows."""

    def write_tables(self, unit: CommitUnit, ends: dict[str, int]) -> Iterator[str]:
        for view, rows in unit.rows.items():
            self.tables[view].write([], ends.get(view))
            yield "table"
            self.tables[view].write(rows)
            yield "table"


class TableNotRestored(PartitionRunner):
    def restore(self) -> Iterator[str]:
        for view in self.world.layout.views[self.source.name]:
            self.tables[view.name] = self.worker.table(view.name, self.place[1])
            yield "restoring"


class OutputsOutsideTheTransaction(PartitionRunner):
    def commit_exactly_once(self, unit: CommitUnit) -> Iterator[str]:
        for place, records in self.outputs(unit):
            self.world.log.append(place, records)
            yield "outputs"
        unit.colocated.clear()
        unit.keyed.clear()
        yield from super().commit_exactly_once(unit)


class ReKeyedOutsideTheTransaction(OutputsOutsideTheTransaction):
    def commit_exactly_once(self, unit: CommitUnit) -> Iterator[str]:
        if self.by_stream:
            yield from PartitionRunner.commit_exactly_once(self, unit)
        else:
            yield from super().commit_exactly_once(unit)


class NotFenced(PartitionRunner):
    def transactional_id(self) -> str:
        return f"{self.worker.name}-{super().transactional_id()}"


class RestoredBeforeFencing(PartitionRunner):
    def start(self) -> Iterator[str]:
        if self.by_stream:
            yield from self.restore()
            self.task = self.build()
        self.producer = self.world.log.producer(self.transactional_id())
        yield "fenced"
        self.position = self.committed = self.world.log.offsets.get(self.place, 0)


class OffsetReadBeforeFencing(PartitionRunner):
    def start(self) -> Iterator[str]:
        before = self.world.log.offsets.get(self.place, 0)
        yield "read"
        yield from super().start()
        self.position = self.committed = before


class MemoryKept(PartitionRunner):
    """A partition that starts again on the same worker goes on with what it had in memory."""

    def build(self) -> StreamTask:
        kept: dict[Any, Any] = self.worker.__dict__.setdefault("kept", {})
        found: StreamTask = kept.setdefault(self.place, None) or super().build()
        kept[self.place] = found
        return found


class OffsetBeforeChangelog(PartitionRunner):
    def commit_at_least_once(self, unit: CommitUnit) -> Iterator[str]:
        if unit.next_offset is not None:
            self.worker.uncommitted[self.place] = unit.next_offset
        yield from super().commit_at_least_once(unit)


class ChangelogBeforeOutputs(PartitionRunner):
    def commit_at_least_once(self, unit: CommitUnit) -> Iterator[str]:
        for view, rows in self.changes(unit):
            self.world.log.append(self.world.changelog(view, unit.partition), rows)
            yield "changelog"
        yield from super().commit_at_least_once(unit)


class _Now(FakeWatermark):
    def reached(self, position: int) -> int | None:
        return self.world.log.now + self.worker.ahead


class GivenUpByTheClock(PartitionRunner):
    def make_watermark(self) -> FakeWatermark:
        return _Now(self.world, self.source, self.place, self.worker)


class _OnlyWhatShows(FakeWatermark):
    def end(self) -> int:
        return self.world.log.partition(self.place).end


class GivenUpBeforeAllShows(PartitionRunner):
    """What is re-keyed and committed, but does not show yet, is taken for not there."""

    def make_watermark(self) -> FakeWatermark:
        return _OnlyWhatShows(self.world, self.source, self.place, self.worker)


class RowByRow(PartitionRunner):
    """At least once: a changelog whose unit does not fit one record batch."""

    def changes(self, unit: CommitUnit) -> Iterator[tuple[str, list[Any]]]:
        for view, rows in super().changes(unit):
            for row in rows:
                yield view, [row]


class JoinsWhereTheOthersAre(ObeyingRunner):
    """A view that is resumed leaves out what came while it was halted."""

    async def catch_up(self, main: StreamStep) -> CommitUnit | None:
        for apart in self.apart.values():
            apart.task.position = self.position
        return await super().catch_up(main)


class ForgetsWhereItRead(ObeyingRunner):
    """A view that is resumed reads all of its input again."""

    def leaves(self, view: PartitionView) -> None:
        view.task.state.positions.input = 0
        super().leaves(view)


_take = LateEvents.take


def requests_are_not_stored(
    self: LateEvents, result: Step, policy: RebuildStream, step: int
) -> Any:
    beyond, _ = _take(self, result, policy, step)
    return beyond, []


def nothing_is_noted(self: ShortWaits, *, everything: bool) -> list[Row]:
    return [row for row in _short_rows(self, everything=everything) if row[0][:1] != b"m"]


def nothing_is_read_again(self: InputWaits, records: Any) -> None:
    pass


def let_go_of_without_rows(self: ShortWaits, event: Event) -> bool:
    return False


_short_rows = ShortWaits.rows
_buffer_rows = ViewState.buffer_rows
_load = ViewState._load


async def expects_what_shows(self: SideInputs, watermark: int) -> None:
    if self._expected is None:
        self._expected = watermark, await self._redelivery_reader.end()


def buffered_is_not_stored(self: ViewState, result: Step, **how: Any) -> list[Row]:
    return [row for row in _buffer_rows(self, result, **how) if row[1] is None]


def released_stays(self: ViewState, result: Step, **how: Any) -> list[Row]:
    return [row for row in _buffer_rows(self, result, **how) if row[1] is not None]


def drain_ends_with_a_restart(self: ViewState) -> None:
    _load(self)
    self.unfinished_streams = []


def deadlines_end_with_a_restart(self: ViewState) -> None:
    _load(self)
    self.timers = type(self.timers)()


def counts_end_with_a_restart(self: ViewState) -> None:
    _load(self)
    if self.table.get(COUNTS):
        self.counts = type(self.counts)()


def an_event_in_a_large_batch_is_dropped(
    ordering: Any, state: Any, timers: Any, events: Any, **more: Any
) -> Step:
    return step(ordering, state, timers, list(events)[:5], **more)


def an_event_that_waits_is_dropped(*arguments: Any, **more: Any) -> Step:
    result = step(*arguments, **more)
    if len(result.buffered) > 1:
        result.buffered.pop()
    return result


class TimesBelieved(PartitionRunner):
    """What another worker's clock has noted is taken as it is."""

    def build(self) -> StreamTask:
        return StreamTask(self.world.topology, self.source, self.place[1], self.tables)
