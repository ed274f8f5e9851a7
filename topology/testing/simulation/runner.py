"""One input partition on a simulated worker: the live runtime's protocol, one step at a time.

`run` is a generator: between two of its steps the process may die, lose the partition or stall,
and any other worker may run. It does what `topology.faust` does, in the same order.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from math import inf

from topology.declaration.policies.late import RebuildStream
from topology.declaration.source import Source
from topology.engine.commit_unit import CommitUnit
from topology.engine.pending_redelivery import RedeliveryQueue
from topology.engine.stream_task import RekeyTask, StreamTask
from topology.engine.view_task import ViewTask
from topology.model.event import Event, Record
from topology.sequencer.memory_budget import Budget
from topology.testing.awaited import complete
from topology.testing.simulation.commits import Commits
from topology.testing.simulation.log import TopicPartition
from topology.testing.simulation.watermark import FakeWatermark
from topology.testing.simulation.worker import Worker, World
from topology.view_rebuild.history import Histories, History
from topology.view_rebuild.stream_rebuild import arebuild, rebuild

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
        self.redelivers: list[ViewTask] = []
        self.rebuilders: list[ViewTask] = []
        self.rekey = None if by_stream else RekeyTask(world.topology, source)
        self.input = world.log.partition(place)
        self.position = self.known = 0
        self.due = inf
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

    @property
    def now(self) -> int:
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
        return self.at != "idle" or self.position < self.input.end or self.due <= self.now

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

    # -- the life of a partition

    def run(self) -> Iterator[str]:
        """Start, then fetch, compute and commit, for ever. Yields the name of each step taken."""
        yield from self.start()
        while True:
            task = self.task
            if task is not None and task.unfinished:
                unit = self.take([])
                yield "computed"
                yield from self.commit(unit)
                continue
            if self.rebuilders and (rebuilt := self.rebuild()) is not None:
                yield "rebuilt"
                yield from self.commit(rebuilt)
                continue
            records = self.fetch()
            if records:
                yield "fetched"
                unit = self.take(records)
                yield "computed"
                yield from self.commit(unit)
            if task is not None:
                self.due = self.earliest(task)
            due = self.due <= self.now
            fired = self.fire() if due else None
            if not records and self.position > self.committed:
                fired = fired or CommitUnit(*self.place)
                fired.next_offset = self.position
            if fired is not None:
                yield "fired"
                yield from self.commit(fired)
            elif not records:
                hidden = any(view.rebuilds for view in self.rebuilders)
                yield "waits" if due or hidden else "idle"

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
        world, partition = self.world, self.place[1]
        budget = Budget() if world.memory is None else Budget(world.memory)
        task = StreamTask(
            world.topology, self.source, partition, self.tables, now=self.now, budget=budget
        )
        views = task.views.values()
        self.redelivers = list(views)
        self.rebuilders = [view for view in views if isinstance(view.view.late, RebuildStream)]
        if world.memory is not None:
            for view in views:
                view.state.ordering = replace(view.state.ordering, portion=world.memory + 1)
        if world.drain is not None:
            for view in task.views.values():
                view.state.ordering = replace(view.state.ordering, drain=world.drain)
        return task

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

    # -- a step of the engine

    def fetch(self) -> list[Record]:
        """The next records, at most a batch."""
        world, (topic, partition) = self.world, self.place
        records = self.input.records
        if self.position >= len(records):
            return []
        limit = 1 + int(world.chance.random() * world.batch)
        found, self.position = self.input.read(self.position, limit)
        return [
            Record(topic, partition, at, out[0], out[1], out[3], out[2])
            for at in found
            if (out := records[at])
        ]

    def record(self, at: int) -> Record:
        """The record at an offset of the input."""
        out = self.input.records[at]
        assert out is not None
        return Record(*self.place, at, out[0], out[1], out[3], out[2])

    def take(self, records: list[Record], horizon: int | None = None) -> CommitUnit:
        """The unit of a batch."""
        task, now = self.task, self.now
        if task is None:
            assert self.rekey is not None
            self.unit = self.rekey.process(records, now)
            return self.unit
        unit, events = task.begin(records, now)
        self.unit = unit
        for view in task.views.values():
            back = self.take_redeliveries(view, now) if view in self.redelivers else ()
            if view.view.is_async:
                complete(view.arun(events, unit, horizon, back))
            else:
                view.run(events, unit, horizon, back)
        task.finish(unit)
        return unit

    # -- rebuilding

    def rebuild(self) -> CommitUnit | None:
        """The unit that rebuilds a stream; None if none is to be, or not all of it shows."""
        if self.position < self.known:
            return None
        for view in self.rebuilders:
            if not (streams := view.rebuilds):
                continue
            output = self.world.log.partition((view.view.output, self.place[1]))
            if output.end < len(output.records):
                continue
            stream, unit = streams[0], CommitUnit(*self.place, now=self.now)
            history = self.history(view, stream)
            if view.view.is_async:
                complete(arebuild(view, stream, history, unit))
            else:
                rebuild(view, stream, history, unit)
            assert self.task is not None
            self.task.finish(unit)
            self.unit = unit
            return unit
        return None

    def history(self, view: ViewTask, stream: str) -> History:
        """What is recorded of a stream, up to where this partition has read."""
        histories = Histories(view, [stream])
        output = (view.view.output, self.place[1])
        for place, end, take in (
            (self.place, self.position, histories.message),
            (output, None, histories.output),
        ):
            partition = self.world.log.partition(place)
            found, _ = partition.read(0, 1 << 30, partition.end if end is None else end)
            for at in found:
                if (out := partition.records[at]) is not None:
                    take(Record(*place, at, out[0], out[1], out[3], out[2]))
        return histories.streams[stream]

    # -- redelivery

    def away(self, view: ViewTask) -> RedeliveryQueue:
        """What is in a view's redelivery topic and did not come again yet, as far as it shows."""
        found = RedeliveryQueue(view)
        found.read(self.redeliveries(view), self.now)
        return found

    def redeliveries(self, view: ViewTask) -> list[Record]:
        """The records of it."""
        place = (view.view.redeliver_topic, self.place[1])
        partition = self.world.log.partitions.get(place)
        if partition is None or partition.end <= view.state.positions.redelivered:
            return []
        return [
            Record(*place, at, out[0], out[1], out[3], out[2])
            for at in range(view.state.positions.redelivered, partition.end)
            if (out := partition.records[at]) is not None
        ]

    def earliest(self, task: StreamTask) -> float:
        """When something is due (ms): at once, while it does not show what comes again."""
        found = [task.due, *(self.comes_again(view) for view in self.redelivers)]
        hidden = not all(self.shows(view) for view in self.redelivers)
        return min(*found, self.now if hidden else inf)

    def comes_again(self, view: ViewTask) -> float:
        """When the next event comes again (ms)."""
        return self.away(view).next(self.now)

    def take_redeliveries(self, view: ViewTask, now: int) -> list[Event]:
        """The events that come again by now."""
        return view.take_redeliveries(self.away(view).take(now), now)

    def shows(self, view: ViewTask) -> bool:
        """Whether all that was written to a view's redelivery topic can be read."""
        partition = self.world.log.partitions.get((view.view.redeliver_topic, self.place[1]))
        return partition is None or partition.end == len(partition.records)

    def fire(self) -> CommitUnit | None:
        """The unit of what is due: retries, events that come again, gaps if they may be given up.

        A gap may not while its event could be among those that come again and do not show yet.
        """
        now, task = self.now, self.task
        assert task is not None
        retries = min((view.retry_due for view in task.views.values()), default=inf)
        if min(retries, inf, *(self.comes_again(view) for view in self.redelivers)) <= now:
            return self.take([])
        if not all(self.shows(view) for view in self.redelivers):
            return None
        horizon = self.watermark.reached(self.position)
        return None if horizon is None or self.due > horizon else self.take([], horizon)
