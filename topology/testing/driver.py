"""TopologyTestDriver: a topology without a broker, one message at a time, on a clock you move."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import orjson

from stores.memory import MemoryTable
from topology.counts import Counts
from topology.event import Record
from topology.progress import Progress, last_of
from topology.source import Source
from topology.stream_task import RekeyTask, StreamTask
from topology.topology import Topology
from topology.unit import CommitUnit
from topology.view_task import ViewTask

Headers = Sequence[tuple[str, bytes]]


class TopologyTestDriver:
    """Runs a topology in-process.

    `pipe` messages into source topics, `read` what came out of any topic, look at `table`s, buffers
    and states, `advance` the clock to let gaps time out, `restart` to lose everything but what was
    durable. The clock starts at `now` ms and moves only when told to.
    """

    def __init__(self, topology: Topology, *, now: int = 1_000_000_000_000) -> None:
        self.topology = topology
        self.now = now
        self._stores = {name: MemoryTable() for name in topology.views}
        self._topics: dict[str, list[Record]] = defaultdict(list)
        self._read: dict[str, int] = defaultdict(int)
        self._tables: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = defaultdict(dict)
        self._keys: dict[str, tuple[str, ...]] = {}
        self._by_topic = {t: s for s in topology.sources.values() for t in s.topics}
        self._tasks = self._build()

    def _build(self) -> dict[str, StreamTask]:
        return {
            source.name: StreamTask(self.topology, source, 0, self._stores)
            for source in self.topology.sources.values()
        }

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
        record = self._append(topic, key, value, headers, at)
        if not source.keyed:
            before = len(self._topics[source.by_stream])
            self._commit(RekeyTask(self.topology, source).process([record], self.now))
            records = self._topics[source.by_stream][before:]
        else:
            records = [record]
        if records:
            self._step(source, records)

    def advance(self, seconds: float) -> None:
        """Move the clock; gaps that are due by then are skipped."""
        self.now += round(seconds * 1000)
        for task in self._tasks.values():
            if task.due <= self.now:
                self._step(task.source, [], self.now)

    def read(self, topic: str) -> list[Record]:
        """The records written to a topic since it was last read, in order."""
        records = self._topics[topic][self._read[topic] :]
        self._read[topic] += len(records)
        return records

    def read_json(self, topic: str) -> list[Any]:
        """The values of `read(topic)`, decoded."""
        return [orjson.loads(record.value or b"null") for record in self.read(topic)]

    def table(self, name: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        """A read-store table as the row changes so far make it: key values → whole row."""
        return {key: dict(row) for key, row in self._tables[name].items()}

    def last(self, view: str, stream: str) -> int:
        """The view state: the last processed sequence of a stream."""
        return last_of(self._view(view).progress(stream))

    def state(self, view: str, stream: str) -> dict[str, Any]:
        """The stream's own dictionary in a view."""
        raw = self._view(view).state(stream)
        return {} if raw is None else dict(orjson.loads(raw))

    def buffer(self, view: str, stream: str) -> dict[int, int]:
        """The ring of a stream in a view: slot → sequence of the event that waits there."""
        progress = self._view(view).progress(stream)
        ring = progress.ring if isinstance(progress, Progress) else None
        return {} if ring is None else {ring.slot(e.sequence): e.sequence for e in ring}

    def counts(self, view: str) -> Counts:
        """Where the view's events ended."""
        return self._view(view).counts

    def restart(self) -> None:
        """Lose all memory and start from the durable rows, as a new process would."""
        self._tasks = self._build()

    def _view(self, name: str) -> ViewTask:
        view = self.topology.views.get(name)
        if view is None:
            known = ", ".join(map(repr, self.topology.views))
            raise KeyError(f"view {name!r} is not in {self.topology.name!r}; it has {known}")
        return self._tasks[view.of.name].views[name]

    def _step(self, source: Source, records: list[Record], horizon: int | None = None) -> None:
        task = self._tasks[source.name]
        while True:
            unit, events = task.begin(records, self.now)
            for view in task.views.values():
                if view.view.is_async:
                    _complete(view.arun(events, unit, horizon))
                else:
                    view.run(events, unit, horizon)
            task.finish(unit)
            self._commit(unit)
            records = []
            if not task.unfinished:
                return

    def _commit(self, unit: CommitUnit) -> None:
        for view, rows in unit.rows.items():
            self._stores[view].write(rows)
        for outputs in (unit.colocated, unit.keyed):
            for topic, records in outputs.items():
                for key, value, timestamp, headers in records:
                    self._append(topic, key, value, headers, timestamp)
        for declared in self.topology.views.values():
            for _, value, _, _ in unit.colocated.get(declared.output, ()):
                for change in orjson.loads(value or b"{}").get("changes", ()):
                    self._apply(change)

    def _apply(self, change: Mapping[str, Any]) -> None:
        rows, row = self._tables[change["table"]], change["key"]
        # The order of a key's columns is that of the first row.
        columns = self._keys.setdefault(change["table"], tuple(row))
        key = tuple(row[name] for name in columns if name in row)
        if change["op"] == "delete":
            rows.pop(key, None)
        else:
            rows.setdefault(key, dict(row)).update(change["values"])

    def _append(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, timestamp: int
    ) -> Record:
        records = self._topics[topic]
        record = Record(topic, 0, len(records), key, value, tuple(headers), timestamp)
        records.append(record)
        return record


def _complete(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, also where an event loop is running already."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
