"""Reads what is durable: changelogs, the group's offsets, topics. Committed records only."""

import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from stores.view_state.memory import MemoryTable
from topology.declaration.route import Route
from topology.declaration.source import Source
from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.diagnostics.explain import (
    PendingRedelivery,
    WaitingStreams,
    of_counts,
    of_sequences,
    of_waiting,
    waiting_rows,
)
from topology.diagnostics.explain.fold import Wanted
from topology.diagnostics.explain.formatting import lately
from topology.engine.redelivery.records import Redelivered, not_before, revive
from topology.engine.state.rows import COUNTS
from topology.engine.view_task import ViewTask
from topology.engine.wait_notes import InputWaits
from topology.faust.inspection.cannot_answer import CannotAnswer
from topology.faust.inspection.kept_folds import Folded, KeptFolds, fold_of, folds_of
from topology.faust.inspection.stream_index import StreamIndex
from topology.faust.inspection.ticker import Ticker
from topology.faust.kafka.broker.clock import agree_on_time
from topology.faust.kafka.clients import admin_client, missing_topics, plain_consumer, read_range
from topology.faust.kafka.offsets import Committed, Offsets
from topology.faust.kafka.open_transactions import Held, held_back
from topology.faust.kafka.reader import FETCH_WAIT
from topology.faust.kafka.worker_clock import wall
from topology.model.counts import left_behind
from topology.model.ending import wait_for_stop
from topology.model.event import Message

SCAN, SECONDS = 500_000, 5.0
"""Offsets at the end of a partition that are looked at, in so many seconds; the last ones first."""
FIRST = 5_000
"""Offsets of the first part of these; each part is twice the one before."""
WAIT = 20
"""Milliseconds until it is looked again whether a partition is read to its end."""
_NOT_HELD = Held(0, 0)


class TopicMissing(CannotAnswer):
    """A topic is missing that the worker makes."""


class Span(NamedTuple):
    """The offsets of a partition: of the first message that is there, and behind the last one that
    can be read. held: how many are behind that, as far as `find_held` knows."""

    first: int
    end: int
    held: int = 0

    @property
    def written(self) -> int:
        """The offset behind all that is there."""
        return self.end + self.held


class Tail(NamedTuple):
    """The last records of a partition, of those that were wanted. looked: how many offsets were
    looked at; cut: what was not, in words, None if all was.
    """

    records: list[Message]
    looked: int
    cut: str | None


class DurableState:
    """What there is of an app's topology, read partition by partition."""

    def __init__(self, app: Any, *, scan: int | None = None) -> None:
        """scan: offsets to read at the end of a topic, however long it takes; else as many as
        can be in SECONDS, SCAN at most. How far a long read is goes to standard error.
        """
        self.app = app
        self._scan, self._seconds = (SCAN, SECONDS) if scan is None else (scan, float("inf"))
        self._stack = AsyncExitStack()
        self.topology: Topology = app.engine.topology
        self._group: str = app.conf.id
        self._offsets = Offsets(app, self._group)
        self._started: AIOKafkaConsumer | None = None
        self.held: Mapping[TopicPartition, Held] = {}

    async def __aenter__(self) -> "DurableState":
        """Connect. Raises TopicMissing where no worker has run yet."""
        wanted = [*self.app.engine.changelogs.values(), *self.topology.side_topics]
        wanted += [source.by_stream for source in self.topology.sources.values()]
        for topic in await missing_topics(self.app, wanted):
            raise TopicMissing(
                f"topic {topic!r} does not exist: no worker of this topology has run here yet"
            )
        # What has waited for how long is said by the workers' clock.
        await agree_on_time(self.app)
        # Whoever looks at many partitions in turn must not wait at the end of each.
        consumer = plain_consumer(
            self.app, max_partition_fetch_bytes=8 << 20, fetch_max_wait_ms=FETCH_WAIT
        )
        async with AsyncExitStack() as stack:
            stack.push_async_callback(lambda: wait_for_stop(consumer.stop()))
            await consumer.start()
            self._stack = stack.pop_all()
        self._started = consumer
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def _consumer(self) -> AIOKafkaConsumer:
        assert self._started is not None
        return self._started

    @property
    def now(self) -> int:
        """The workers' clock (ms)."""
        return wall()

    async def span(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Span]:
        """The offsets that partitions have."""
        partitions = list(partitions)
        firsts = await self._consumer.beginning_offsets(partitions)
        ends = await self._consumer.end_offsets(partitions)
        return {
            tp: Span(firsts[tp], ends[tp], max(0, self.held.get(tp, _NOT_HELD).end - ends[tp]))
            for tp in partitions
        }

    async def find_held(self, declared: Iterable[Source | Route]) -> None:
        """Find in what of these an open transaction hides what there is; it is `held` then, and
        not read yet. Raises TopicMissing."""
        places: list[TopicPartition] = []
        for each in declared:
            if isinstance(each, Source):
                places += [TopicPartition(each.by_stream, n) for n in range(each.partitions)]
            if isinstance(each, Route) or not each.keyed:
                places += await self.inputs(each)
        self.held = await held_back(self.app, self._consumer, places)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, Committed]:
        """The group's offsets, of the partitions that have one."""
        return await self._offsets.committed(partitions)

    async def inputs(self, source: Source | Route) -> list[TopicPartition]:
        """The partitions of a source's topics. Raises TopicMissing."""
        for topic in await missing_topics(self.app, list(source.topics)):
            raise TopicMissing(f"source topic {topic!r} does not exist; create it")
        async with admin_client(self.app) as admin:
            found = await admin.describe_topics(list(source.topics))
        return [
            TopicPartition(each["topic"], number)
            for each in found
            for number in range(len(each["partitions"]))
        ]

    async def unkeyed(self, source: Source) -> int:
        """How many offsets of a source's topics are not re-keyed yet; 0 where none has to be."""
        return 0 if source.keyed else await self.backlog(source)

    async def backlog(self, source: Source | Route) -> int:
        """How many offsets of a source's topics are not read yet."""
        return sum(end - at for at, end in (await self.positions(source)).values())

    async def positions(self, source: Source | Route) -> dict[str, tuple[int, int]]:
        """Partition of a source's topics → (the offset that is read next, the end)."""
        inputs = await self.inputs(source)
        done, spans = await self.committed(inputs), await self.span(inputs)
        return {
            f"{tp.topic}/{tp.partition}": (
                min(span.written, done[tp].offset if tp in done else span.first),
                span.written,
            )
            for tp, span in spans.items()
        }

    async def records(
        self, partition: TopicPartition, start: int, end: int
    ) -> AsyncGenerator[Message]:
        """The records from offset `start` up to `end`."""
        if start >= end:
            return
        self._consumer.assign([partition])
        ticker = Ticker(f"reading {partition.topic}", end - start, unit="offsets")
        try:
            async for records in read_range(self._consumer, partition, start, end, wait=WAIT):
                for record in records:
                    yield record
                if records:
                    start, before = records[-1].offset + 1, start
                    ticker.add(start - before)
        finally:
            ticker.end()

    async def end_of(
        self,
        topic: str | TopicPartition,
        wanted: Callable[[Message], bool] | None = None,
        *,
        least: int | None = None,
        most: int | None = None,
    ) -> Tail:
        """The last records of a partition, or of a topic of one partition.

        least: the offset down to which it is looked, if that is possible; else as far as it is.
        most: so many offsets at most; as many as the looks of this DurableState have unless given.
        """
        most = self._scan if most is None else most
        partition = TopicPartition(topic, 0) if isinstance(topic, str) else topic
        span = (await self.span([partition]))[partition]
        floor = span.first if least is None else min(span.end, max(span.first, least))
        parts: list[list[Message]] = []
        upto, size, until = span.end, FIRST, time.monotonic() + self._seconds
        while upto > floor and span.end - upto < most and time.monotonic() < until:
            start = max(floor, upto - size, span.end - most)
            parts.append([])
            async for record in self.records(partition, start, upto):
                if wanted is None or wanted(record):
                    parts[-1].append(record)
            upto, size = start, size * 2
        found = [record for part in reversed(parts) for record in part]
        looked = span.end - upto
        return Tail(found, looked, lately(looked, partition.topic) if upto > floor else None)

    async def task(
        self, view: View, partition: int, wanted: Wanted, tokens: Collection[bytes] = ()
    ) -> ViewTask:
        """A view in one partition, made of the rows of its changelog that are wanted.

        tokens: of a few streams, by which their rows are found; see `StreamIndex`.
        """
        source = TopicPartition(view.of.by_stream, partition)
        # Before the rows, which are at least as far then.
        group = (await self.committed([source])).get(source)
        fold = await self._fold(view.name, partition, wanted, tokens)
        if wanted is of_counts or isinstance(fold, WaitingStreams):
            return _task(view, MemoryTable(), fold.rows, group)
        table = MemoryTable()
        rows = waiting_rows(fold) if wanted is of_waiting else fold.rows
        table.write(sorted(rows.items()))
        memory = await self._in_memory(view, source, table, wanted)
        return _task(view, table, memory, group)

    async def waiting(self, view: View, partition: int) -> tuple[ViewTask, WaitingStreams]:
        """What waits of a view whose order counts, and the view without it."""
        source = TopicPartition(view.of.by_stream, partition)
        group = (await self.committed([source])).get(source)
        fold = await self._fold(view.name, partition, of_sequences)
        assert isinstance(fold, WaitingStreams)
        return _task(view, MemoryTable(), fold.rows, group), fold

    async def _in_memory(
        self, view: View, source: TopicPartition, table: MemoryTable, wanted: Wanted
    ) -> dict[bytes, bytes]:
        """The rows that events would have that wait in the worker's memory only."""
        waits = InputWaits(view, table)
        if waits:
            span = (await self.span([source]))[source]
            start, end = max(span.first, waits.first), min(span.end, waits.end)
            async for record in self.records(source, start, end):
                waits.take([record])
        return {key: row for key, row in waits.rows.items() if wanted(key, row)}

    async def rows(self, name: str, partition: int, wanted: Wanted) -> dict[bytes, bytes]:
        """The rows that are wanted of a view's changelog, or of that of its second stage."""
        # A copy: what is kept for the next look stays whole, whatever is done with it.
        return dict((await self._fold(name, partition, wanted)).rows)

    async def _fold(
        self, name: str, partition: int, wanted: Wanted, tokens: Collection[bytes] = ()
    ) -> Folded:
        changelog = TopicPartition(self.app.engine.changelogs[name], partition)
        kept = folds_of(self.app)
        if kept is None:
            span = (await self.span([changelog]))[changelog]
            return await self._read_on(changelog, fold_of(wanted), span.first, span.end)
        wanted = kept.serving(wanted)
        async with kept.reading[changelog]:
            span = (await self.span([changelog]))[changelog]
            fold, upto = kept.begin(changelog, wanted, span.first, span.end)
            if tokens and not fold.rows:
                upto = await self._found(kept, changelog, fold, span, tokens)
            index = kept.indexes[changelog] if wanted is of_sequences else None
            await self._read_on(changelog, fold, upto, span.end, index)
            kept.keep(changelog, wanted, fold, span.end)
            return fold

    async def _found(
        self, kept: KeptFolds, changelog: TopicPartition, fold: Folded, span: Span,
        tokens: Collection[bytes],
    ) -> int:  # fmt: skip
        """Take in what there is of some streams, without reading what is of others only.

        Returns:
            The offset from which on it lacks the rest of the changelog.
        """
        whole, upto = kept.begin(changelog, of_sequences, span.first, span.end)
        index = kept.indexes[changelog]
        await self._read_on(changelog, whole, upto, span.end, index)
        kept.keep(changelog, of_sequences, whole, span.end)
        assert isinstance(whole, WaitingStreams)
        for start, end in index.ranges(tokens):
            await self._read_on(changelog, fold, max(start, span.first), end)
        for key, value in {**whole.rows, **whole.notes}.items():
            fold.take(key, value)
        return span.end

    async def _read_on(
        self, changelog: TopicPartition, fold: Folded, start: int, end: int,
        index: StreamIndex | None = None,
    ) -> Folded:  # fmt: skip
        async for record in self.records(changelog, start, end):
            assert record.key is not None
            fold.take(record.key, record.value)
            if index is not None:
                index.note(record.offset, record.key)
        return fold

    async def away(
        self, task: ViewTask, partition: int, stream: str | None = None
    ) -> tuple[list[PendingRedelivery], list[str]]:
        """The events of a view's redelivery topic that did not come again yet, each once; and what
        was not looked at, in words.

        stream: only those of this one.
        """
        view = task.view
        if not task.state.counts.redelivering:
            return [], []
        topic = TopicPartition(view.redeliver_topic, partition)
        wanted = None if stream is None else stream.encode()
        tail = await self.end_of(
            topic,
            lambda record: (
                wanted in (None, record.key) and not task.state.positions.took(record.offset)
            ),
            least=task.state.positions.redelivered,
        )
        found: dict[tuple[str, int], PendingRedelivery] = {}
        for record in tail.records:
            for event in revive(view, [record], 0):
                assert isinstance(event, Redelivered)
                # Behind the position, an event may have come and gone away again since.
                found[event.stream, event.sequence] = PendingRedelivery(
                    event.stream, event.sequence, event.attempt, not_before(record)
                )
        return list(found.values()), [tail.cut] if tail.cut else []


def _task(
    view: View, table: MemoryTable, rows: Mapping[bytes, bytes], group: Committed | None
) -> ViewTask:
    """A view of the rows of a table and more of them."""
    table.write(rows.items())
    task = ViewTask(view, table)
    if group is not None and task.state.positions.input is None:
        task.state.positions.input = left_behind(table.get(COUNTS), group.offset)
    return task
