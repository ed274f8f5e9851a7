"""Drives a topology's tasks in the test's process: arrivals, steps, and what follows from them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from topology.declaration.source import Source
from topology.declaration.topology import Topology
from topology.engine.commit_unit import CommitUnit
from topology.engine.parked_messages import ParkedMessages
from topology.engine.partition.pending_redelivery import RedeliveryQueue
from topology.engine.route_task import RouteTask
from topology.engine.stream_task import RekeyTask, StreamTask
from topology.engine.view_task import ViewTask
from topology.model.event import Event, Record
from topology.testing.driver.storage import DriverStorage
from topology.testing.driver.unchanged import watching
from topology.testing.in_a_thread import in_a_thread
from topology.view_rebuild.history import Histories
from topology.view_rebuild.stream_rebuild import arebuild, rebuild

FED = 100_000
"""Messages that may arrive because of one step of a test: handlers may send to their own source."""


class InProcessRunner:
    """Runs the tasks of a topology's sources over what is in the driver's storage.

    now: the clock (ms). tasks: source → its task. rekeyed: topic → the task that re-keys it.
    missed: view → the records that came while it was halted. changed: what handlers changed of
    their events' content, in words.
    """

    def __init__(self, topology: Topology, storage: DriverStorage, now: int) -> None:
        self.topology = topology
        self.storage = storage
        self.now = now
        self.missed: dict[str, list[Record]] = defaultdict(list)
        self.changed: list[str] = []
        self.sources = {t: s for s in topology.sources.values() for t in s.topics}
        self._fed: dict[str, int] = defaultdict(int)
        """Source topic → how far it is read."""
        self.tasks = self._build()
        self.rekeyed = {
            topic: RekeyTask(topology, source)
            for topic, source in self.sources.items()
            if not source.keyed
        }

        self.routed = {
            topic: RouteTask(topology, route)
            for route in topology.routes.values()
            for topic in route.topics
        }
        for route in topology.routes.values():
            for each in route.tables:
                parked = ParkedMessages(each.name, storage.stores[each.name])
                self.routed[each.topic].parked = parked

    @property
    def inputs(self) -> list[str]:
        """The topics in which messages arrive."""
        return [*self.sources, *self.routed]

    def restart(self) -> None:
        """Lose all memory and start from the durable rows."""
        self.tasks = self._build(self.tasks)

    def view(self, name: str) -> ViewTask:
        """The task of a view. Raises KeyError."""
        view = self.topology.views.get(name)
        if view is None:
            known = ", ".join(map(repr, self.topology.views))
            raise KeyError(f"view {name!r} is not in {self.topology.name!r}; it has {known}")
        return self.tasks[view.of.name].views[name]

    def advance(self, end: int) -> None:
        """Move the clock to a time (ms), and do what is due by then when it is due."""
        while (next_due := min(map(self.due, self.tasks.values()), default=float("inf"))) <= end:
            self.now = max(self.now, int(next_due))
            for task in self.tasks.values():
                if self.due(task) <= self.now:
                    self.step(task.source, [], self.now)
            self.feed()
        self.now = end

    def _build(self, before: Mapping[str, StreamTask] | None = None) -> dict[str, StreamTask]:
        """The tasks; `before`: those whose positions are durable."""
        made: dict[str, StreamTask] = {}
        for name, source in self.topology.sources.items():
            known: dict[str, Any] = {}
            if before is not None:
                known = {"position": before[name].position, "intake": before[name].intake}
            made[name] = StreamTask(
                self.topology, source, 0, self.storage.stores, now=self.now, **known
            )
            for view, task in made[name].views.items():
                task.view = task.state.view = replace(
                    task.view,
                    handler=watching(task.view, self.changed.append),
                    emitting=task.view.emitting.anew(),
                )
                if missed := self.missed[view]:
                    task.state.position = missed[0].offset
        return made

    def redeliveries(self, view: ViewTask) -> RedeliveryQueue:
        """What is in a view's redelivery topic and did not come again yet."""
        away = RedeliveryQueue(view)
        records = self.storage.topics[view.view.redeliver_topic]
        away.read(records[view.state.positions.redelivered :], self.now)
        return away

    def due(self, task: StreamTask) -> float:
        """When a view of a source has something to do next (ms)."""
        found = [task.due]
        found += [self.redeliveries(view).next(self.now) for view in task.views.values()]
        return min(found)

    def feed(self, at_once: int = 1) -> None:
        """Let arrive what is in the source topics: what was piped, and what handlers sent there.

        at_once: how many messages of a topic one commit unit may have.
        """
        left, behind = FED, True
        while behind:
            behind = False
            for topic in self.inputs:
                records = self.storage.topics[topic]
                if self._fed[topic] < len(records):
                    first = self._fed[topic]
                    new = records[first : first + at_once]
                    self._fed[topic] += len(new)
                    if (routed := self.routed.get(topic)) is not None:
                        self.storage.commit(routed.process(new, self.now))
                    else:
                        self._arrive(self.sources[topic], new)
                    behind, left = True, left - 1
                    if not left:
                        raise RuntimeError(
                            f"handlers have sent {FED} messages to source topics because of one "
                            f"step, the last to {topic!r}: does that end?"
                        )

    def _arrive(self, source: Source, records: list[Record]) -> None:
        if not source.keyed:
            before = len(self.storage.topics[source.by_stream])
            self.storage.commit(self.rekeyed[records[0].topic].process(records, self.now))
            records = self.storage.topics[source.by_stream][before:]
        if records:
            self.step(source, records)

    def step(self, source: Source, records: list[Record], horizon: int | None = None) -> None:
        """Let all views of a source take records, those that are halted when they are resumed."""
        task = self.tasks[source.name]
        unit, events = task.begin(records, self.now)
        for name, view in task.views.items():
            if view.halted:
                self.missed[name] += records
            else:
                self._run(view, events, unit, horizon)
        self.close(task, unit)
        self._finish(task.views.values(), horizon)

    def close(self, task: StreamTask, unit: CommitUnit) -> None:
        task.finish(unit)
        self.storage.commit(unit)

    def _run(
        self, view: ViewTask, events: list[Event], unit: CommitUnit, horizon: int | None
    ) -> None:
        back = view.take_redeliveries(self.redeliveries(view).take(self.now), self.now)
        if view.view.is_async:
            in_a_thread(view.arun(events, unit, horizon, back))
        else:
            view.run(events, unit, horizon, back)

    def _finish(self, views: Iterable[ViewTask], horizon: int | None = None) -> None:
        """Go on until no drain is unfinished, and no stream is to be rebuilt."""
        for view in views:
            while view.unfinished or view.rebuilds:
                unit = CommitUnit(view.view.of.by_stream, 0, now=self.now)
                if view.unfinished:
                    self._run(view, [], unit, horizon)
                else:
                    self._rebuild(view, unit)
                self.close(self.tasks[view.view.of.name], unit)

    def _rebuild(self, view: ViewTask, unit: CommitUnit) -> None:
        """Rebuild a stream from what was recorded."""
        stream, declared = view.rebuilds[0], view.view
        histories = Histories(view, [stream])
        for record in self.storage.topics[declared.of.by_stream][: view.state.position]:
            histories.message(record)
        for record in self.storage.topics[declared.output]:
            histories.output(record)
        if declared.is_async:
            in_a_thread(arebuild(view, stream, histories.streams[stream], unit))
        else:
            rebuild(view, stream, histories.streams[stream], unit)

    def catch_up(self, view: ViewTask) -> None:
        """Go on with what a command let go, and with what came while the view was halted."""
        task = self.tasks[view.view.of.name]
        task.admit(view.view.name, view)
        if missed := self.missed[view.view.name]:
            view.state.position = missed[0].offset
        self.close(task, CommitUnit(task.source.by_stream, 0, now=self.now))
        self._finish([view])
        missed, self.missed[view.view.name] = self.missed[view.view.name], []
        for at, record in enumerate(missed):
            if view.halted:
                self.missed[view.view.name] = missed[at:]
                return
            unit = CommitUnit(task.source.by_stream, 0, now=self.now)
            view.state.position = record.offset + 1
            # What is no event was set aside when it came.
            events = task.inspect([record], CommitUnit(*unit.place), self.now)
            self._run(view, events, unit, None)
            self.close(task, unit)
            self._finish([view])
