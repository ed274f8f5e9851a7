"""How a simulated partition starts: fenced, its tables restored, its step made."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from topology.declaration.source import Source
from topology.engine.commit_unit import CommitUnit
from topology.engine.partition import (
    PartitionView,
    RekeyStep,
    SideInputs,
    Step,
    StreamStep,
)
from topology.engine.partition.ports import Work
from topology.engine.stream_task import RekeyTask, StreamTask
from topology.engine.view_task import ViewTask
from topology.engine.wait_notes import InputWaits
from topology.sequencer.memory_budget import Budget
from topology.testing.awaited import complete
from topology.testing.simulation.commits import Commits
from topology.testing.simulation.log_partition import TopicPartition
from topology.testing.simulation.ports import (
    ALL,
    ShownHistories,
    SideReader,
    in_turn,
    record,
)
from topology.testing.simulation.watermark import FakeWatermark
from topology.testing.simulation.worker import Worker
from topology.testing.simulation.world import World

RESTORED = 5
"""Changelog records that a restoring table takes at once."""


class Starting(Commits):
    """A partition up to where its loop runs.

    task: the engine's, once started. position: the offset up to which it has read. known: at least
    once, the offset up to which nothing is rebuilt.
    """

    def __init__(
        self, world: World, worker: Worker, place: TopicPartition, source: Source, by_stream: bool
    ) -> None:
        super().__init__(world, worker, place)
        self.source = source
        self.by_stream = by_stream
        self.task: StreamTask | None = None
        self.input = world.log.partition(place)
        self.position = self.known = 0
        self.watermark = self.make_watermark()

    def clock(self) -> int:
        """The worker's clock (ms)."""
        return self.world.log.now + self.worker.ahead

    def start(self) -> Iterator[str]:
        """Fence, restore, find the committed offset: in this order, as each relies on the last."""
        if self.world.guarantee == "exactly_once":
            self.producer = self.world.log.producer(self.transactional_id())
            yield "fenced"
        if self.by_stream:
            yield from self.restore()
            yield from self.save_waits()
            self.task = self.build()
        self.position = self.committed = self.world.log.offsets.get(self.place, 0)
        # At least once, the state may have more of the input than the committed offset says.
        once = self.world.guarantee == "exactly_once"
        self.known = 0 if once else self.input.end
        yield "started"

    def transactional_id(self) -> str:
        """Of the partition, whoever has it."""
        return "{}-{}".format(*self.place)

    def make_watermark(self) -> FakeWatermark:
        """The barrier before this partition gives up a gap."""
        return FakeWatermark(self.world, self.source, self.place, self.worker)

    def build(self) -> StreamTask:
        """The engine's task, from the restored tables."""
        world, (_, partition) = self.world, self.place
        budget = Budget() if world.memory is None else Budget(world.memory)
        task = StreamTask(
            world.topology, self.source, partition, self.tables,
            position=world.log.offsets.get(self.place, 0), now=self.clock(), budget=budget,
            limits=world.limits, atomic=world.guarantee == "exactly_once",
        )  # fmt: skip
        for view in task.views.values():
            view.view = replace(view.view, emitting=view.view.emitting.anew())
            if world.memory is not None:
                view.state.ordering = replace(view.state.ordering, portion=world.memory + 1)
            if world.drain is not None:
                view.state.ordering = replace(view.state.ordering, drain=world.drain)
        return task

    def make_step(self) -> Step:
        """What the loop does with a batch."""
        if self.task is None:
            return RekeyStep(
                self.place, RekeyTask(self.world.topology, self.source), _do, self.clock
            )
        step = self.stream_step(self.task)
        for view in self.task.views.values():
            step.admit(self.opened(view))
        return step

    def stream_step(self, task: StreamTask) -> StreamStep:
        """The step of a task that has no views yet."""
        return StreamStep(task, (), self.watermark, self.clock, in_turn)

    def opened(self, task: ViewTask) -> PartitionView:
        """All that belongs to a view here."""
        view, number = task.view, self.place[1]
        redeliveries, commands = (
            SideReader(self.world, (topic, number))
            for topic in (view.redeliver_topic, view.commands_topic)
        )
        # Whenever it is asked, it looks at the topics again.
        side_inputs = SideInputs(
            task, redeliveries, commands, redeliveries.written, count(1).__next__
        )
        dispatch = _complete if view.is_async else _do
        return PartitionView(
            task, self.tables[view.name], dispatch, side_inputs, ShownHistories(self, task)
        )

    def save_waits(self) -> Iterator[str]:
        """Make rows of what waited in memory only, and is in the input yet."""
        unit = CommitUnit(*self.place, now=self.clock())
        for view in self.world.layout.views[self.source.name]:
            if waits := InputWaits(view, self.tables[view.name]):
                offsets, _ = self.input.read(waits.first, ALL, waits.end)
                waits.take(record(self.world, self.place, at) for at in offsets)
                waits.save(unit)
        yield from self.commit(unit)

    def restore(self) -> Iterator[str]:
        """Bring the views' tables to the changelog's end."""
        world, partition = self.world, self.place[1]
        for view in world.layout.views[self.source.name]:
            changelog = world.log.partition(world.changelog(view.name, partition))
            table = self.tables[view.name] = self.worker.table(view.name, partition)
            end = changelog.end
            if table.offset is None or table.offset > end:
                table.clear()
            at = table.offset or 0
            while at < end:
                found, at = changelog.read(at, RESTORED, end)
                rows = [(out[0] or b"", out[1]) for i in found if (out := changelog.records[i])]
                table.write(rows, at)
                yield "restoring"
            table.write([], end)


async def _do(work: Work) -> None:
    await work()


async def _complete(work: Work) -> None:
    complete(work())
