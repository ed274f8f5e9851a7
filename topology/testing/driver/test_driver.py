"""TopologyTestDriver: a topology without a broker, one message at a time, on a clock you move."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import orjson

from stores.sinks import DeadRecord
from topology.declaration.lanes import split_lane
from topology.declaration.source import Source
from topology.declaration.timeouts import Clock
from topology.declaration.topology import Topology
from topology.diagnostics.audit import AuditReport
from topology.diagnostics.explain import Account
from topology.engine.commands.execute import Command, CommandResult, aexecute
from topology.engine.commit_unit import CommitUnit
from topology.engine.dead_events import DeadEventFilter, dead_at, find_dead, put_back
from topology.engine.lane_names import ids_of, lanes_told, readings
from topology.engine.pending_redelivery import RedeliveryQueue
from topology.engine.rows import REDRIVEN, split_redriven_key
from topology.engine.stream_task import RekeyTask, StreamTask
from topology.engine.view_task import ViewTask
from topology.model.counts import Counts
from topology.model.event import Event, Record
from topology.model.printable import printable
from topology.sequencer.progress import Progress, last_of
from topology.testing.driver import given
from topology.testing.driver.audit import audit
from topology.testing.driver.explain import explain
from topology.testing.driver.read_store import DeadRow, StoreRules
from topology.testing.driver.storage import DriverStorage, Headers
from topology.testing.driver.unchanged import ChangedContent, watching
from topology.testing.in_a_thread import in_a_thread
from topology.view_rebuild.history import Histories
from topology.view_rebuild.stream_rebuild import arebuild, rebuild

FED = 100_000
"""Messages that may arrive because of one step of a test: handlers may send to their own source."""


class TopologyTestDriver:
    """Runs a topology in the test's own process, with the engine that workers run.

    The clock moves only when the test moves it.

    Args:
        topology: the topology to run.
        now: the time of the clock at the start, in milliseconds since 1970.
        store: whose rules hold for rows: `"sqlite"`, `"postgresql"` or `"delta"`; `"any"` for rows
            that all of them take.
        strict: whether a call raises `DeadRow` for a row that the store would refuse, and
            `ChangedContent` for a handler that changes `event.content`, both AssertionErrors, once
            its work is done. If False, refused rows are in `dead_rows`.

    Raises:
        TypeError: `topology` is no Topology.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        now: int = 1_000_000_000_000,
        store: StoreRules = "any",
        strict: bool = True,
    ) -> None:
        if not isinstance(topology, Topology):
            raise TypeError(f"TopologyTestDriver({printable(repr(topology))}): give a Topology")
        self.topology = topology
        self.now = now
        self.strict = strict
        self._kept = DriverStorage(topology, store)
        self._told = 0
        self._changed: list[str] = []
        self._fed: dict[str, int] = defaultdict(int)
        """Source topic → how far it is read."""
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
                known = {"position": before[name].position, "intake": before[name].intake}
            made[name] = StreamTask(
                self.topology, source, 0, self._kept.stores, now=self.now, **known
            )
            for view, task in made[name].views.items():
                task.view = replace(task.view, handler=watching(task.view, self._changed.append))
                if missed := self._missed[view]:
                    task.state.position = missed[0].offset
        return made

    @property
    def now(self) -> int:
        """The clock (ms). To set it is to set a worker's clock, forward or back."""
        return self._now

    @now.setter
    def now(self, to: int) -> None:
        self._now = given.moment("now", to)

    def pipe(
        self,
        topic: str,
        value: Any,
        *,
        key: str | bytes | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> None:
        """Deliver one message on a source topic.

        Args:
            topic: the topic of a source.
            value: bytes as they are, None, or anything that JSON can write.
            key: the record's key.
            headers: (name, value) pairs.
            timestamp: milliseconds since 1970; the driver's clock unless given.

        Raises:
            KeyError: the topic is not a source's.
            ValueError: Kafka would not take the message.
        """
        if topic not in self._by_topic:
            known = ", ".join(map(repr, self._by_topic))
            raise KeyError(
                f"topic {topic!r} is no source of {self.topology.name!r}; it has {known}"
            )
        at = self.now if timestamp is None else given.stamp("timestamp", timestamp)
        body, names = given.value_bytes(value), given.checked_headers(headers)
        self._kept.append(topic, given.key_bytes(key), body, names, at)
        self._feed()
        self._check()

    @contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        """Let every handler take some time for an event, by a clock of its own.

        This concerns views with a time limit: `with driver.slow(10): driver.pipe(…)`.

        Args:
            seconds: the time that a handler takes.
        """
        before, times = Clock.now, count(0.0, given.seconds("seconds", seconds))
        Clock.now = lambda: next(times)
        try:
            yield
        finally:
            Clock.now = before

    def advance(self, seconds: float) -> None:
        """Move the clock. What becomes due happens when it is due, one thing after the other.

        Events come again, failed events are retried, and gaps are given up.

        Args:
            seconds: how far to move the clock.

        Raises:
            ValueError: `seconds` is no such number.
        """
        end = given.moment("now", self.now + round(given.seconds("seconds", seconds) * 1000))
        while (next_due := min(map(self._due, self._tasks.values()), default=float("inf"))) <= end:
            self.now = max(self.now, int(next_due))
            for task in self._tasks.values():
                if self._due(task) <= self.now:
                    self._step(task.source, [], self.now)
            self._feed()
        self.now = end
        self._check()

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
    ) -> CommandResult:
        """Give a view a command, as an operator does.

        Args:
            name: `"skip"`, `"redrive"`, `"unpark"`, `"halt"`, `"resume"` or `"drop"`.
            view: the view's name.
            stream: the stream's id, where the command is for one.
            sequence: the sequence to skip.
            who: who gives it, for the audit topic.
            force: do it even if that loses events.
            dry_run: only say what it would do.

        Returns:
            Whether it was done, and a message.
        """
        task = self._view(view)
        unit = CommitUnit(task.view.of.by_stream, 0, now=self.now)
        command = Command(name, view, stream, sequence, who, force, dry_run)
        results: list[CommandResult] = []

        async def work() -> None:
            results.append(await aexecute(task, command, unit))

        in_a_thread(work())
        self._close(self._tasks[task.view.of.name], unit)
        if not task.halted:
            self._catch_up(task)
        self._feed()
        self._check()
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
        """Put dead events of a view back, as `faust redrive-dead` does.

        Args:
            view: the view's name.
            stream: only events of this stream.
            reason: only events with this text in their reason.
            older_than: only events that have been dead for so many seconds.
            dry_run: only say which events it would put back.

        Returns:
            Stream → the sequences of its events.
        """
        task, topics = self._view(view), self._kept.topics
        declared = task.view
        before = self.now - round(given.seconds("older_than", older_than) * 1000)
        done = {split_redriven_key(key) for key, _ in task.state.table.scan(*REDRIVEN)}
        waiting = topics[declared.redeliver_topic][task.state.positions.redelivered :]
        done |= {at for record in waiting if (at := dead_at(record)) is not None}
        named = None if stream is None else given.stream("stream", stream)
        choice = DeadEventFilter(named, reason, before)
        found = find_dead(declared, topics[declared.dead_topic], choice, done)
        if not dry_run:
            for dead in found.chosen:
                key, value, timestamp, headers = put_back(dead, self.now)
                self._kept.append(declared.redeliver_topic, key, value, headers, timestamp)
            if not task.halted:
                self._step(declared.of, [])
                self._feed()
        self._check()
        return found.streams

    def read(self, topic: str) -> list[Record]:
        """Return the records written to a topic since the last read, in order.

        Args:
            topic: the topic's name.
        """
        records = self._kept.topics[topic][self._read[topic] :]
        self._read[topic] += len(records)
        return records

    def read_json(self, topic: str) -> list[Any]:
        """Return the decoded values of `read(topic)`.

        Args:
            topic: the topic's name.
        """
        return [orjson.loads(record.value or b"null") for record in self.read(topic)]

    def table(self, name: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        """Return a read-store table after the row changes so far: key values → whole row.

        Values have the types that the table declares, or else those of its first rows.

        Args:
            name: the table's name.
        """
        rows = self._kept.read_store.tables.get(name, {})
        return {key: dict(row) for key, row in rows.items()}

    @property
    def dead_rows(self) -> list[DeadRecord]:
        """The records of output topics that the read store would have put aside, with reasons."""
        return list(self._kept.read_store.dead)

    def _check(self) -> None:
        """Raise DeadRow if what was just done made rows that no read store would have, and
        ChangedContent if a handler changed what other views see."""
        new = self._kept.refused[self._told :]
        self._told += len(new)
        changed = self._changed[:]
        self._changed.clear()
        if changed and self.strict:
            raise ChangedContent(changed[0])
        if new and self.strict:
            more = f" (and {len(new) - 1} more)" if len(new) > 1 else ""
            raise DeadRow(
                f"{new[0]}{more}. No such row comes to a read store; to test that, make the driver "
                "with strict=False and look at dead_rows"
            )

    def last(self, view: str, stream: str) -> int:
        """Return the view state: the last processed sequence of a stream.

        Args:
            view: the view's name.
            stream: the stream's id, as its producer writes it.
        """
        return last_of(self._view(view).state.progress(self._id(view, stream)))

    def state(self, view: str, stream: str) -> dict[str, Any]:
        """Return the stream's own dictionary in a view.

        Args:
            view: the view's name.
            stream: the stream's id, as its producer writes it.
        """
        raw = self._view(view).state.stream_state(self._id(view, stream))
        return {} if raw is None else dict(orjson.loads(raw))

    def buffer(self, view: str, stream: str) -> dict[int, int]:
        """Return the ring of a stream in a view: slot → sequence of the event that waits there.

        Args:
            view: the view's name.
            stream: the stream's id, as its producer writes it.
        """
        progress = self._view(view).state.progress(self._id(view, stream))
        ring = progress.ring if isinstance(progress, Progress) else None
        return {} if ring is None else {ring.slot(e.sequence): e.sequence for e in ring}

    def waiting(self, view: str, stream: str) -> list[int]:
        """Return the sequences of a stream that wait in a view, in the ring or beyond, or parked.

        Args:
            view: the view's name.
            stream: the stream's id, as its producer writes it.
        """
        return [event.sequence for event in self._view(view).state.waits(self._id(view, stream))]

    def counts(self, view: str) -> Counts:
        """Return where the view's events are.

        Args:
            view: the view's name.
        """
        return self._view(view).state.counts

    def halted(self, view: str) -> str | None:
        """Return why a view is halted, None if it is not.

        Args:
            view: the view's name.
        """
        return self._view(view).halted

    def explain(self, view: str, stream: str) -> Account:
        """Explain why a stream is where it is, as `faust explain` does: `assert found.well`.

        Args:
            view: the view's name.
            stream: the stream's id. In a view with lanes, one lane as `stream|lane`; else the first
                lane that is not well, if any is not.
        """
        ids = self._ids(view, stream)
        accounts = [self._account(view, each) for each in ids]
        return next((each for each in accounts if not each.well), accounts[0])

    def _account(self, view: str, stream: str) -> Account:
        task, missed = self._view(view), self._missed[view]
        inspected = self._tasks[task.view.of.name].inspect(missed, CommitUnit("", 0), self.now)
        own = stream if task.view.split is None else split_lane(stream)[0]
        unread = sum(1 for event in inspected if event.stream == own)
        return explain(self._kept, task, stream, now=self.now, unread=unread)

    def restart(self) -> None:
        """Lose all memory and start from the durable rows, as a new process would."""
        self._tasks = self._build(self._tasks)

    def audit(self, *, contents: bool = False) -> AuditReport:
        """Prove that nothing vanished, as `faust audit` does: `assert driver.audit().sound`.

        Args:
            contents: also run the handlers again, and compare their outputs with those written.
        """
        return audit(self._kept, self._tasks, self._rekeyed, self._missed, contents=contents)

    def _id(self, view: str, stream: str) -> str:
        """A stream as the view knows it. Raises ValueError for one with several lanes."""
        ids = self._ids(view, stream)
        if len(ids) > 1:
            raise ValueError(
                f"stream {printable(stream)!r} has {len(ids)} lanes in view {view!r}: "
                f"{', '.join(map(printable, ids))}; name one of them"
            )
        return ids[0]

    def _ids(self, view: str, stream: str) -> list[str]:
        """The stream, or all its lanes, as the view knows them; one at least."""
        task, text = self._view(view), given.stream("stream", stream)
        declared, topics = task.view, self._kept.topics
        found = {*ids_of(task.state, text)}
        if declared.split is not None and not task.state.known(text):
            side_topics = [*topics[declared.dead_topic], *topics[declared.errors_topic]]
            for own in (split_lane(r)[0] for r in readings(declared, text) if "|" not in r):
                found |= lanes_told(declared, own, side_topics)
        return sorted(found) or [declared.stream_id(text)]

    def _view(self, name: str) -> ViewTask:
        view = self.topology.views.get(name)
        if view is None:
            known = ", ".join(map(repr, self.topology.views))
            raise KeyError(f"view {name!r} is not in {self.topology.name!r}; it has {known}")
        return self._tasks[view.of.name].views[name]

    def _away(self, view: ViewTask) -> RedeliveryQueue:
        """What is in a view's redelivery topic and did not come again yet."""
        away = RedeliveryQueue(view)
        records = self._kept.topics[view.view.redeliver_topic]
        away.read(records[view.state.positions.redelivered :], self.now)
        return away

    def _due(self, task: StreamTask) -> float:
        """When a view of a source has something to do next (ms)."""
        found = [task.due]
        found += [self._away(view).next(self.now) for view in task.views.values()]
        return min(found)

    def _feed(self) -> None:
        """Let arrive what is in the source topics: what was piped, and what handlers sent there."""
        left, behind = FED, True
        while behind:
            behind = False
            for topic, source in self._by_topic.items():
                records = self._kept.topics[topic]
                if self._fed[topic] < len(records):
                    self._fed[topic] += 1
                    self._arrive(source, records[self._fed[topic] - 1])
                    behind, left = True, left - 1
                    if not left:
                        raise RuntimeError(
                            f"handlers have sent {FED} messages to source topics because of one "
                            f"step, the last to {topic!r}: does that end?"
                        )

    def _arrive(self, source: Source, record: Record) -> None:
        records = [record]
        if not source.keyed:
            before = len(self._kept.topics[source.by_stream])
            self._kept.commit(self._rekeyed[record.topic].process(records, self.now))
            records = self._kept.topics[source.by_stream][before:]
        if records:
            self._step(source, records)

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
        back = view.take_redeliveries(self._away(view).take(self.now), self.now)
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
        for record in self._kept.topics[declared.of.by_stream][: view.state.position]:
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
        if missed := self._missed[view.view.name]:
            view.state.position = missed[0].offset
        self._close(task, CommitUnit(task.source.by_stream, 0, now=self.now))
        self._finish([view])
        missed, self._missed[view.view.name] = self._missed[view.view.name], []
        for at, record in enumerate(missed):
            if view.halted:
                self._missed[view.view.name] = missed[at:]
                return
            unit = CommitUnit(task.source.by_stream, 0, now=self.now)
            view.state.position = record.offset + 1
            # What is no event was set aside when it came.
            events = task.inspect([record], CommitUnit(*unit.place), self.now)
            self._run(view, events, unit, None)
            self._close(task, unit)
            self._finish([view])
