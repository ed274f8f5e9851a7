"""One input partition on a simulated worker: the engine's own protocol, one step at a time.

`run` is a generator: between two of its steps the process may die, lose the partition or stall,
and any other worker may run. Once started it drives the engine's own loop, as live workers do.
"""

from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from math import inf

from topology.declaration.source import Source
from topology.engine.commit_unit import CommitUnit
from topology.engine.partition import (
    PartitionLoop,
    Step,
    StreamStep,
)
from topology.engine.view_task import ViewTask
from topology.model.event import Message
from topology.testing.simulation.log_partition import TopicPartition
from topology.testing.simulation.ports import (
    LoopPorts,
    record,
)
from topology.testing.simulation.starting import Starting
from topology.testing.simulation.worker import Worker
from topology.testing.simulation.world import World

BETWEEN = frozenset(("new", "fenced", "restoring", "started", "done", "idle", "waits"))
"""The steps after which nothing is in hand that could be finished."""


class PartitionRunner(Starting):
    """Runs one partition until it is dropped, or raises Fenced.

    at: the last step that was taken. due: when something was to be done (ms) as it was when the
    partition last had nothing to do, infinite if nothing was.
    """

    def __init__(
        self, world: World, worker: Worker, place: TopicPartition, source: Source, by_stream: bool
    ) -> None:
        super().__init__(world, worker, place, source, by_stream)
        self.name = f"{worker.name}: {place[0]}/{place[1]}"
        self.at = "new"
        self.unit: CommitUnit | None = None
        self.step: Step | None = None
        self.due = inf
        self._nothing_done = False
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

    def save(self) -> Iterator[str]:
        """What an orderly end makes durable."""
        if self.step is not None and self.between and (unit := self.step.last_unit()) is not None:
            yield from self.commit(unit)

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
