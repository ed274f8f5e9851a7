"""One input partition on a simulated worker: the engine's own protocol, one step at a time.

`run` is a generator: between two of its steps the process may die, lose the partition or stall,
and any other worker may run. Once started it drives the engine's own loop, as live workers do.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from math import inf

from topology.declaration.source import Source
from topology.engine.commit_unit import CommitUnit
from topology.engine.partition import (
    PartitionLoop,
    PartitionView,
    RekeyStep,
    SideInputs,
    Step,
    StreamStep,
)
from topology.engine.partition.ports import Work
from topology.engine.stream_task import RekeyTask, StreamTask
from topology.engine.view_task import ViewTask
from topology.model.event import Message
from topology.sequencer.memory_budget import Budget
from topology.testing.awaited import complete
from topology.testing.simulation.commits import Commits
from topology.testing.simulation.log_partition import TopicPartition
from topology.testing.simulation.ports import (
    LoopPorts,
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

BETWEEN = frozenset(("new", "fenced", "restoring", "started", "done", "idle", "waits"))
"""The steps after which nothing is in hand that could be finished."""


class PartitionRunner(Commits):
    """Runs one partition until it is dropped, or raises Fenced.

    at: the last step that was taken. task: the engine's, once started. due: the earliest deadline
    of a gap (ms) as it was when the partition last had nothing to do, infinite if there was none.
    """

    def __init__(
        self, world: World, worker: Worker, place: TopicPartition, source: Source, by_stream: bool
    ) -> None:
        super().__init__(world, worker, place)
        self.source = source
        self.by_stream = by_stream
        self.name = f"{worker.name}: {place[0]}/{place[1]}"
        self.at = "new"
        self.unit: CommitUnit | None = None
        self.task: StreamTask | None = None
        self.step: Step | None = None
        self.input = world.log.partition(place)
        self.position = self.known = 0
        self.due = inf
        self._nothing_done = False
        self.watermark = self.make_watermark()
        self.steps: Iterator[str] = self.run()

    def advance(self, count: int) -> int:
        """Take up to `count` steps, fewer if there is nothing to do. Returns how many.

        Raises Fenced, and whatever the engine raises.
        """
        taken = 0
        for at in islice(self.steps, count):
            self.at = at
            if at == "idle" or at == "waits":
                break
            taken += 1
        return taken

    def clock(self) -> int:
        """The worker's clock (ms)."""
        return self.world.log.now + self.worker.ahead

    @property
    def between(self) -> bool:
        """Whether no step of the engine is in hand."""
        return self.at in BETWEEN

    @property
    def behind(self) -> bool:
        """Whether there is something to read."""
        return self.position < self.input.end

    @property
    def busy(self) -> bool:
        """Whether it may have something to do: to go on with, to read, or a gap to give up."""
        return self.at != "idle" or self.position < self.input.end or self.due <= self.clock()

    def __str__(self) -> str:
        found = f"read to {self.position}, committed {self.committed}"
        if self.unit is None or self.between:
            return found
        outputs = {**self.unit.colocated, **self.unit.keyed}
        written = [f"{len(records)} to {topic}" for topic, records in outputs.items() if records]
        rows = [f"{len(rows)} rows of {view}" for view, rows in self.unit.rows.items()]
        return f"{found}; next {self.unit.next_offset}, {', '.join(written + rows)}"

    def drop(self) -> None:
        """End it where it is: the generator and its runner would keep each other alive."""
        self.steps = iter(())
        self.step = None

    # -- the life of a partition

    def run(self) -> Iterator[str]:
        """Start, then fetch, compute and commit, for ever. Yields the name of each step taken."""
        yield from self.start()
        step, ports = self.make_step(), LoopPorts(self)
        self.step = step
        loop = PartitionLoop(step, ports, ports, self.clock, self.position)
        yield from loop.run().__await__()

    def start(self) -> Iterator[str]:
        """Fence, restore, find the committed offset: in this order, as each relies on the last."""
        if self.world.guarantee == "exactly_once":
            self.producer = self.world.log.producer(self.transactional_id())
            yield "fenced"
        if self.by_stream:
            yield from self.restore()
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
        )  # fmt: skip
        for view in task.views.values():
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

    # -- what the loop asks for

    def fetch(self) -> Generator[str, None, Sequence[Message]]:
        """The next records, at most a batch; where nothing is to be done it says so first."""
        if self._nothing_done and not self.behind:
            self.due = self.earliest()
            yield "waits" if self.due <= self.clock() or self.rebuilds else "idle"
        self._nothing_done = True
        if not self.behind:
            return ()
        limit = 1 + int(self.world.chance.random() * self.world.batch)
        found, self.position = self.input.read(self.position, limit)
        if found:
            yield "fetched"
        return [record(self.world, self.place, at) for at in found]

    def commit_computed(self, unit: CommitUnit) -> Generator[str, None, None]:
        """Make durable what a step came to."""
        self.unit, self._nothing_done = unit, False
        yield "computed"
        yield from self.commit(unit)

    @property
    def rebuilds(self) -> bool:
        """Whether a stream is to be rebuilt."""
        return self.task is not None and any(view.rebuilds for view in self.task.views.values())

    def earliest(self) -> float:
        """When something is due (ms): at once, while it does not show what comes again.

        A gap that waits for what comes again is due with that.
        """
        if not isinstance(self.step, StreamStep):
            return inf
        views = self.step.views.values()
        gaps = [view.task.due for view in views if not view.side_inputs.expecting]
        shows = all(self.shows(view.task) for view in views)
        return min(self.step.due, *gaps, inf if shows else self.clock())

    def shows(self, view: ViewTask) -> bool:
        """Whether all that was written to a view's redelivery topic can be read."""
        partition = self.world.log.partitions.get((view.view.redeliver_topic, self.place[1]))
        return partition is None or partition.end == len(partition.records)


async def _do(work: Work) -> None:
    await work()


async def _complete(work: Work) -> None:
    complete(work())
