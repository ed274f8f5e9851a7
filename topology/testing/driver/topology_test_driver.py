"""TopologyTestDriver: a topology without a broker, one message at a time, on a clock you move."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import orjson

from stores.sinks import DeadRecord
from topology.declaration.lanes import split_lane
from topology.declaration.timeouts import Clock
from topology.declaration.topology import Topology
from topology.diagnostics.audit import AuditReport
from topology.diagnostics.explain import Account
from topology.engine.commands.execute import Command, CommandResult, aexecute
from topology.engine.commit_unit import CommitUnit
from topology.engine.redelivery.dead_events import DeadEventFilter, dead_at, find_dead, put_back
from topology.engine.state.rows import REDRIVEN, split_redriven_key
from topology.model.counts import Counts
from topology.model.event import Record
from topology.model.printable import printable
from topology.sequencer.progress import Progress, last_of
from topology.testing.driver import given
from topology.testing.driver.audit import audit
from topology.testing.driver.explain import explain
from topology.testing.driver.read_store import DeadRow, StoreRules
from topology.testing.driver.runner import InProcessRunner
from topology.testing.driver.storage import DriverStorage, Headers
from topology.testing.driver.stream_names import stream_id, stream_ids
from topology.testing.driver.unchanged import ChangedContent
from topology.testing.in_a_thread import in_a_thread

AT_ONCE = 500
"""Messages of a commit unit that a batch is handled in."""


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
            its work is done. If False, refused rows are in `dead_records`.

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
        self.strict = strict
        storage = self._storage = DriverStorage(topology, store)
        self._runner = InProcessRunner(topology, storage, given.moment("now", now))
        self._told = 0
        self._read: dict[str, int] = defaultdict(int)
        """Topic → how far the test has read it."""

    @property
    def now(self) -> int:
        """The clock (ms). To set it is to set a worker's clock, forward or back."""
        return self._runner.now

    @now.setter
    def now(self, to: int) -> None:
        self._runner.now = given.moment("now", to)

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
        self._append(topic, key, value, headers, timestamp)
        self._runner.feed()
        self._check()

    def pipe_batch(self, topic: str, messages: Iterable[tuple[str | bytes | None, Any]]) -> None:
        """Deliver many messages on a source topic, as a worker reads a backlog.

        They are handled in commit units of up to 500 messages, which is faster than one by one.

        Args:
            topic: the topic of a source.
            messages: the key and the value of each, as `pipe` takes them.

        Raises:
            KeyError: the topic is not a source's.
            ValueError: Kafka would not take a message.
        """
        for key, value in messages:
            self._append(topic, key, value, (), None)
        self._runner.feed(AT_ONCE)
        self._check()

    def _append(
        self,
        topic: str,
        key: str | bytes | None,
        value: Any,
        headers: Headers,
        timestamp: int | None,
    ) -> None:
        if topic not in self._runner.inputs:
            known = ", ".join(map(repr, self._runner.inputs))
            raise KeyError(
                f"topic {topic!r} is no source of {self.topology.name!r}; it has {known}"
            )
        at = self.now if timestamp is None else given.stamp("timestamp", timestamp)
        body, names = given.value_bytes(value), given.checked_headers(headers)
        self._storage.append(topic, given.key_bytes(key), body, names, at)

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
        self._runner.advance(end)
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
        task = self._runner.view(view)
        unit = CommitUnit(task.view.of.by_stream, 0, now=self.now)
        command = Command(name, view, stream, sequence, who, force, dry_run)
        results: list[CommandResult] = []

        async def work() -> None:
            results.append(await aexecute(task, command, unit))

        in_a_thread(work())
        self._runner.close(self._runner.tasks[task.view.of.name], unit)
        if not task.halted:
            self._runner.catch_up(task)
        self._runner.feed()
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
        task, topics = self._runner.view(view), self._storage.topics
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
                self._storage.append(declared.redeliver_topic, key, value, headers, timestamp)
            if not task.halted:
                self._runner.step(declared.of, [])
                self._runner.feed()
        self._check()
        return found.streams

    def read(self, topic: str) -> list[Record]:
        """Return the records written to a topic since the last read, in order.

        Args:
            topic: the topic's name.
        """
        records = self._storage.topics[topic][self._read[topic] :]
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

        Values have the types that the table declares, or else those of its first rows. A column
        that is not declared is there once it has had a value, as in a read store.

        Args:
            name: the table's name.
        """
        rows = self._storage.read_store.tables.get(name, {})
        return {key: dict(row) for key, row in rows.items()}

    @property
    def dead_records(self) -> list[DeadRecord]:
        """The records of output topics that the read store would have put aside, with reasons."""
        return list(self._storage.read_store.dead)

    def _check(self) -> None:
        """Raise DeadRow if what was just done made rows that no read store would have, and
        ChangedContent if a handler changed what other views see."""
        new = self._storage.refused[self._told :]
        self._told += len(new)
        changed = self._runner.changed[:]
        self._runner.changed.clear()
        if changed and self.strict:
            raise ChangedContent(changed[0])
        if new and self.strict:
            more = f" (and {len(new) - 1} more)" if len(new) > 1 else ""
            raise DeadRow(
                f"{new[0]}{more}. No such row comes to a read store; to test that, make the driver "
                "with strict=False and look at dead_records"
            )

    def last(self, view: str, stream: str) -> int:
        """Return the view state: the last processed sequence of a stream.

        Args:
            view: the view's name.
            stream: the stream's id, as its producer writes it.
        """
        return last_of(self._progress(view, stream))

    def state(self, view: str, stream: str) -> dict[str, Any]:
        """Return the stream's own dictionary in a view.

        Args:
            view: the view's name.
            stream: the stream's id, as its producer writes it.
        """
        task = self._runner.view(view)
        raw = task.state.stream_state(stream_id(self._storage, task, stream))
        return {} if raw is None else dict(orjson.loads(raw))

    def buffer(self, view: str, stream: str) -> dict[int, int]:
        """Return the ring of a stream in a view: slot → sequence of the event that waits there.

        Args:
            view: the view's name.
            stream: the stream's id, as its producer writes it.
        """
        progress = self._progress(view, stream)
        ring = progress.ring if isinstance(progress, Progress) else None
        return {} if ring is None else {ring.slot(e.sequence): e.sequence for e in ring}

    def waiting(self, view: str, stream: str) -> list[int]:
        """Return the sequences of a stream that wait in a view, in the ring or beyond, or parked.

        Args:
            view: the view's name.
            stream: the stream's id, as its producer writes it.
        """
        task = self._runner.view(view)
        found = task.state.waits(stream_id(self._storage, task, stream))
        return [event.sequence for event in found]

    def counts(self, view: str) -> Counts:
        """Return where the view's events are.

        Args:
            view: the view's name.
        """
        return replace(self._runner.view(view).state.counts)

    def halted(self, view: str) -> str | None:
        """Return why a view is halted, None if it is not.

        Args:
            view: the view's name.
        """
        return self._runner.view(view).halted

    def explain(self, view: str, stream: str) -> Account:
        """Explain why a stream is where it is, as `faust explain` does: `assert found.well`.

        Args:
            view: the view's name.
            stream: the stream's id. In a view with lanes, one lane as `stream|lane`; else the first
                lane that is not well, if any is not.
        """
        ids = stream_ids(self._storage, self._runner.view(view), stream)
        accounts = [self._account(view, each) for each in ids]
        return next((each for each in accounts if not each.well), accounts[0])

    def _account(self, view: str, stream: str) -> Account:
        task = self._runner.view(view)
        source = self._runner.tasks[task.view.of.name]
        inspected = source.inspect(self._runner.missed[view], CommitUnit("", 0), self.now)
        own = stream if task.view.split is None else split_lane(stream)[0]
        unread = sum(1 for event in inspected if event.stream == own)
        return explain(self._storage, task, stream, now=self.now, unread=unread)

    def restart(self) -> None:
        """Lose all memory and start from the durable rows, as a new process would."""
        self._runner.restart()

    def audit(self, *, contents: bool = False) -> AuditReport:
        """Prove that nothing vanished, as `faust audit` does: `assert driver.audit().sound`.

        Args:
            contents: also run the handlers again, and compare their outputs with those written.
        """
        return audit(
            self._storage,
            self._runner.tasks,
            self._runner.rekeyed,
            self._runner.missed,
            self._runner.routed,
            contents=contents,
        )

    def _progress(self, view: str, stream: str) -> int | Progress:
        task = self._runner.view(view)
        return task.state.progress(stream_id(self._storage, task, stream))
