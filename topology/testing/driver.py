"""TopologyTestDriver: a topology without a broker, one message at a time, on a clock you move."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

import orjson

from stores.sink import Dead
from topology.audit import Report
from topology.away import Away
from topology.commands import Command, Result, aexecute
from topology.counts import Counts
from topology.dead import Choice, dead_at, find, put_back
from topology.event import Event, Record
from topology.explain import Account
from topology.history import Histories
from topology.lanes import split_lane
from topology.progress import Progress, last_of
from topology.rebuild import arebuild, rebuild
from topology.rows import REDRIVEN, split_redriven_key
from topology.source import Source
from topology.stream_task import RekeyTask, StreamTask
from topology.testing.driver_audit import audit
from topology.testing.driver_explain import explain
from topology.testing.in_a_thread import in_a_thread
from topology.testing.kept import Headers, Kept
from topology.testing.read_store import DeadRow, Store
from topology.timeouts import Clock
from topology.topology import Topology
from topology.unit import CommitUnit
from topology.view_task import ViewTask


class TopologyTestDriver:
    """Runs a topology in-process.

    `pipe` messages into source topics, `read` what came out of any topic, look at `table`s, buffers
    and states, `advance` the clock to let gaps time out, events come again and retries be made,
    give a `command` as an operator does, `restart` to lose everything but what was durable. The
    clock starts at `now` ms and moves only when told to.

    store: whose rules hold for rows, "sqlite", "postgresql" or "delta"; "any" for a row that all of
    them take. strict: what would be dead there raises DeadRow, an AssertionError, from whatever
    brought it about, once that is done; otherwise it is in `dead_rows`.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        now: int = 1_000_000_000_000,
        store: Store = "any",
        strict: bool = True,
    ) -> None:
        self.topology = topology
        self.now = now
        self.strict = strict
        self._kept = Kept(topology, store)
        self._told = 0
        self._read: dict[str, int] = defaultdict(int)
        self._missed: dict[str, list[Record]] = defaultdict(list)
        """View → the records that came while it was halted."""
        self._by_topic = {t: s for s in topology.sources.values() for t in s.topics}
        self._tasks = self._build()
        self._rekeyed = {
            topic: RekeyTask(topology, source)
            for topic, source in self._by_topic.items()
            if not source.keyed
        }

    def _build(self, before: Mapping[str, StreamTask] | None = None) -> dict[str, StreamTask]:
        """The tasks; `before`: those whose positions are durable."""
        made: dict[str, StreamTask] = {}
        for name, source in self.topology.sources.items():
            known: dict[str, Any] = {}
            if before is not None:
                known = {"position": before[name].position, "taken": before[name].taken}
            made[name] = StreamTask(self.topology, source, 0, self._kept.stores, **known)
            for view, task in made[name].views.items():
                if missed := self._missed[view]:
                    task.position = missed[0].offset
        return made

    def pipe(
        self,
        topic: str,
        value: Any,
        *,
        key: str | bytes | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> None:
        """Let one message arrive on a source topic.

        value: bytes as they are, None, or anything that JSON can write. timestamp: ms, the driver's
        clock unless given. Raises KeyError for a topic that is no source's.
        """
        source = self._by_topic.get(topic)
        if source is None:
            known = ", ".join(map(repr, self._by_topic))
            raise KeyError(
                f"topic {topic!r} is no source of {self.topology.name!r}; it has {known}"
            )
        if value is not None and not isinstance(value, bytes):
            value = orjson.dumps(value)
        if isinstance(key, str):
            key = key.encode()
        at = self.now if timestamp is None else timestamp
        record = self._kept.append(topic, key, value, headers, at)
        if not source.keyed:
            before = len(self._kept.topics[source.by_stream])
            self._kept.commit(self._rekeyed[topic].process([record], self.now))
            records = self._kept.topics[source.by_stream][before:]
        else:
            records = [record]
        if records:
            self._step(source, records)
        self._check_rows()

    @contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        """Meanwhile every handler takes so many seconds for an event, by a clock of its own.

        Only a view with a time limit is measured: `with driver.slow(10): driver.pipe(…)`.
        """
        before, times = Clock.now, count(0.0, seconds)
        Clock.now = lambda: next(times)
        try:
            yield
        finally:
            Clock.now = before

    def advance(self, seconds: float) -> None:
        """Move the clock. What is due by then is done when it is due, one thing after the other:
        events come again, retries are made, gaps are given up."""
        end = self.now + round(seconds * 1000)
        while (next_due := min(map(self._due, self._tasks.values()), default=float("inf"))) <= end:
            self.now = max(self.now, int(next_due))
            for task in self._tasks.values():
                if self._due(task) <= self.now:
                    self._step(task.source, [], self.now)
        self.now = end
        self._check_rows()

    def command(
        self,
        name: str,
        view: str,
        stream: str | None = None,
        sequence: int | None = None,
        *,
        who: str = "test",
        force: bool = False,
        dry_run: bool = False,
    ) -> Result:
        """Give a view a command: skip, redrive, unpark, halt, resume or drop; see `Command`."""
        task = self._view(view)
        unit = CommitUnit(task.view.of.by_stream, 0, now=self.now)
        command = Command(name, view, stream, sequence, who, force, dry_run)
        results: list[Result] = []

        async def work() -> None:
            results.append(await aexecute(task, command, unit))

        in_a_thread(work())
        self._close(self._tasks[task.view.of.name], unit)
        if not task.halted:
            self._catch_up(task)
        self._check_rows()
        return results[0]

    def redrive_dead(
        self,
        view: str,
        stream: str | None = None,
        *,
        reason: str | None = None,
        older_than: float = 0,
        dry_run: bool = False,
    ) -> dict[str, list[int]]:
        """Put dead events of a view back, as `faust redrive-dead` does; returns their sequences.

        stream, reason, older_than: only those of this stream, with this text in their reason, that
        have been dead for so many seconds.
        """
        task, topics = self._view(view), self._kept.topics
        declared = task.view
        before = self.now - round(older_than * 1000)
        done = {split_redriven_key(key) for key, _ in task.table.scan(*REDRIVEN)}
        waiting = topics[declared.redeliver_topic][task.positions.redelivered :]
        done |= {at for record in waiting if (at := dead_at(record)) is not None}
        choice = Choice(stream, reason, before)
        found = find(declared, topics[declared.dead_topic], choice, done)
        if not dry_run:
            for dead in found.chosen:
                key, value, timestamp, headers = put_back(dead, self.now)
                self._kept.append(declared.redeliver_topic, key, value, headers, timestamp)
            if not task.halted:
                self._step(declared.of, [])
        return found.streams

    def read(self, topic: str) -> list[Record]:
        """The records written to a topic since it was last read, in order."""
        records = self._kept.topics[topic][self._read[topic] :]
        self._read[topic] += len(records)
        return records

    def read_json(self, topic: str) -> list[Any]:
        """The values of `read(topic)`, decoded."""
        return [orjson.loads(record.value or b"null") for record in self.read(topic)]

    def table(self, name: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        """A read-store table as the row changes so far make it: key values → whole row.

        Values are of the types that the table declares, or of those of its first rows.
        """
        rows = self._kept.read_store.tables.get(name, {})
        return {key: dict(row) for key, row in rows.items()}

    @property
    def dead_rows(self) -> list[Dead]:
        """The records of output topics that the read store would have put aside, with reasons."""
        return list(self._kept.read_store.dead)

    def _check_rows(self) -> None:
        """Raise DeadRow if what was just done made rows that no read store would have."""
        new = self._kept.refused[self._told :]
        self._told += len(new)
        if new and self.strict:
            more = f" (and {len(new) - 1} more)" if len(new) > 1 else ""
            raise DeadRow(
                f"{new[0]}{more}. No such row comes to a read store; to test that, make the driver "
                "with strict=False and look at dead_rows"
            )

    def last(self, view: str, stream: str) -> int:
        """The view state: the last processed sequence of a stream."""
        return last_of(self._view(view).progress(self._id(view, stream)))

    def state(self, view: str, stream: str) -> dict[str, Any]:
        """The stream's own dictionary in a view."""
        raw = self._view(view).state(self._id(view, stream))
        return {} if raw is None else dict(orjson.loads(raw))

    def buffer(self, view: str, stream: str) -> dict[int, int]:
        """The ring of a stream in a view: slot → sequence of the event that waits there."""
        progress = self._view(view).progress(self._id(view, stream))
        ring = progress.ring if isinstance(progress, Progress) else None
        return {} if ring is None else {ring.slot(e.sequence): e.sequence for e in ring}

    def waiting(self, view: str, stream: str) -> list[int]:
        """The sequences of a stream that wait in a view, parked ones too, in the ring or beyond."""
        return [event.sequence for event in self._view(view).waits(self._id(view, stream))]

    def counts(self, view: str) -> Counts:
        """Where the view's events ended."""
        return self._view(view).counts

    def halted(self, view: str) -> str | None:
        """Why a view is halted, None if it is not."""
        return self._view(view).halted

    def explain(self, view: str, stream: str) -> Account:
        """Why a stream is where it is, as `faust explain` says it: `assert found.well`."""
        task, missed, stream = self._view(view), self._missed[view], self._id(view, stream)
        inspected = self._tasks[task.view.of.name].inspect(missed, CommitUnit("", 0), self.now)
        own = stream if task.view.split is None else split_lane(stream)[0]
        unread = sum(1 for event in inspected if event.stream == own)
        return explain(self._kept, task, stream, now=self.now, unread=unread)

    def restart(self) -> None:
        """Lose all memory and start from the durable rows, as a new process would."""
        self._tasks = self._build(self._tasks)

    def audit(self, *, contents: bool = False) -> Report:
        """Prove that nothing vanished, as `faust audit` does: `assert driver.audit().sound`.

        contents: run handlers again, too, and compare what they say with what was said.
        """
        return audit(self._kept, self._tasks, self._rekeyed, self._missed, contents=contents)

    def _id(self, view: str, stream: str) -> str:
        return self._view(view).view.stream_id(stream)

    def _view(self, name: str) -> ViewTask:
        view = self.topology.views.get(name)
        if view is None:
            known = ", ".join(map(repr, self.topology.views))
            raise KeyError(f"view {name!r} is not in {self.topology.name!r}; it has {known}")
        return self._tasks[view.of.name].views[name]

    def _away(self, view: ViewTask) -> Away:
        """What is in a view's redelivery topic and did not come again yet."""
        away = Away(view)
        records = self._kept.topics[view.view.redeliver_topic]
        away.read(records[view.positions.redelivered :], self.now)
        return away

    def _due(self, task: StreamTask) -> float:
        """When a view of a source has something to do next (ms)."""
        found = [task.due]
        found += [self._away(view).next(self.now) for view in task.views.values()]
        return min(found)

    def _step(self, source: Source, records: list[Record], horizon: int | None = None) -> None:
        """Let all views of a source take records, those that are halted when they are resumed."""
        task = self._tasks[source.name]
        unit, events = task.begin(records, self.now)
        for name, view in task.views.items():
            if view.halted:
                self._missed[name] += records
            else:
                self._run(view, events, unit, horizon)
        self._close(task, unit)
        self._finish(task.views.values(), horizon)

    def _close(self, task: StreamTask, unit: CommitUnit) -> None:
        task.finish(unit)
        self._kept.commit(unit)

    def _run(
        self, view: ViewTask, events: list[Event], unit: CommitUnit, horizon: int | None
    ) -> None:
        back = view.take_back(self._away(view).take(self.now), self.now)
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
                self._close(self._tasks[view.view.of.name], unit)

    def _rebuild(self, view: ViewTask, unit: CommitUnit) -> None:
        """Rebuild a stream from what was recorded."""
        stream, declared = view.rebuilds[0], view.view
        histories = Histories(view, [stream])
        for record in self._kept.topics[declared.of.by_stream][: view.position]:
            histories.message(record)
        for record in self._kept.topics[declared.output]:
            histories.output(record)
        if declared.is_async:
            in_a_thread(arebuild(view, stream, histories.streams[stream], unit))
        else:
            rebuild(view, stream, histories.streams[stream], unit)

    def _catch_up(self, view: ViewTask) -> None:
        """Go on with what a command let go, and with what came while the view was halted."""
        task = self._tasks[view.view.of.name]
        task.admit(view.view.name, view)
        self._close(task, CommitUnit(task.source.by_stream, 0, now=self.now))
        self._finish([view])
        missed, self._missed[view.view.name] = self._missed[view.view.name], []
        for at, record in enumerate(missed):
            if view.halted:
                self._missed[view.view.name] = missed[at:]
                return
            unit = CommitUnit(task.source.by_stream, 0, now=self.now)
            view.position = record.offset + 1
            # What is no event was set aside when it came.
            events = task.inspect([record], CommitUnit(*unit.place), self.now)
            self._run(view, events, unit, None)
            self._close(task, unit)
            self._finish([view])
