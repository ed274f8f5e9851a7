"""Audit what is in Kafka: note the ends, read all topics of a topology up to them, and add up."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from stores.sinks.row_changes import gc_paused
from topology.declaration.topology import Topology
from topology.diagnostics.audit import (
    Audit,
    AuditReport,
    AuditSnapshot,
    ContentsCheck,
    Place,
    Violation,
)
from topology.diagnostics.audit.received import event_of
from topology.faust.inspection.cannot_answer import CannotAnswer
from topology.faust.inspection.named import named
from topology.faust.inspection.ticker import Ticker
from topology.faust.kafka.clients import (
    connected_consumer,
    missing_topics,
    partitions_of,
    read_range,
)
from topology.faust.kafka.offsets import Committed, Offsets

PATIENCE = 20.0
"""Seconds to wait for a moment in which nothing is committed; then something may move."""
PAUSE = 0.25
"""Seconds between two looks."""
CHUNK = 10_000
"""Records of a partition that are taken before it is another one's turn."""


class CannotAudit(CannotAnswer):
    """Why there is nothing to audit, or no way to."""


async def audit(
    app: Any, *, patience: float = PATIENCE, views: Collection[str] = (), contents: bool = False
) -> AuditReport:
    """Audit an app's topology; no worker is needed, and none is disturbed.

    patience: seconds to wait for a moment in which no worker commits. views: those to audit, with
    their sources; all of them if there are none. contents: run handlers again, and compare what
    they say with what was said. Raises CannotAudit, and KafkaError where there is
    no broker.
    """
    engine = app.engine
    for name in views:
        try:
            named("view", name, engine.topology.views, engine.topology.name)
        except KeyError as error:
            raise CannotAudit(error.args[0]) from None
    consumer = await connected_consumer(app, max_partition_fetch_bytes=1 << 20)
    try:
        found = await _Positions.begin(app, consumer)
        snapshot, changelogs = await found.settle(patience)
        made = Audit(engine.topology, snapshot, found.partitions, views)
        ticker = Ticker("audit, states", sum(changelogs.values()))
        for view in made.views:
            topic = engine.changelogs[view.name]
            for number in range(found.partitions.get(topic, 0)):
                tp = TopicPartition(topic, number)
                consumer.assign([tp])
                async for records in read_range(consumer, tp, snapshot.first(tp), changelogs[tp]):
                    for record in records:
                        made.row(view.name, record)
                    ticker.add(len(records))
        ticker.end()
        made.begin()
        ticker = Ticker("audit", _records(made.topics, snapshot))
        with gc_paused():
            await _feed(consumer, made.feed, made.topics, snapshot, ticker)
            if contents:
                ticker.end()
                await _compare(consumer, made, snapshot)
            report = made.report(contents=contents)
        ticker.end()
        if report.violations:
            report.violations[0] = await _located(consumer, engine.topology, report, snapshot)
        return report
    finally:
        await consumer.stop()


class _Positions:
    """Notes where everything is."""

    def __init__(self, app: Any, consumer: AIOKafkaConsumer) -> None:
        self._app = app
        self._consumer = consumer
        self.partitions: dict[str, int] = {}
        """Topic → how many partitions it has."""

    @classmethod
    async def begin(cls, app: Any, consumer: AIOKafkaConsumer) -> "_Positions":
        look, engine = cls(app, consumer), app.engine
        topology: Topology = engine.topology
        changelogs = set(engine.changelogs.values())
        missing = set(await missing_topics(app, [*_topics(topology), *changelogs]))
        for source in topology.sources.values():
            for topic in {*source.topics, source.by_stream} & missing:
                raise CannotAudit(
                    f"topic {topic!r} does not exist: no worker of this topology has run here yet"
                )
        if changelogs and changelogs <= missing:
            raise CannotAudit(
                f"topic {min(changelogs)!r} does not exist: no worker of this topology has run "
                "here yet"
            )
        for topic in (*_topics(topology), *engine.changelogs.values()):
            if topic not in missing:
                look.partitions[topic] = len(await partitions_of(consumer, topic))
        return look

    async def settle(self, patience: float) -> tuple[AuditSnapshot, Mapping[TopicPartition, int]]:
        """A cut at which the states and the group's offsets belong together, and the changelogs'
        ends. It is exact if nothing moved at all while it was noted.

        Raises CannotAudit where a partition is never at rest for a moment.
        """
        app, consumer, engine = self._app, self._consumer, self._app.engine
        topology: Topology = engine.topology
        sources = topology.sources.values()
        inputs = self._all(t for source in sources for t in {*source.topics, source.by_stream})
        others = self._all(_topics(topology))
        # More may arrive: what is not read yet is not audited.
        still = others - self._all(t for source in sources for t in source.topics)
        still |= self._all(engine.changelogs.values())
        offsets, until = Offsets(app, app.conf.id), time.monotonic() + patience
        committed: dict[TopicPartition, Committed | None] = {}
        rests: dict[TopicPartition, int] = {}
        before: _Moment | None = None
        while True:
            now = _Moment(await offsets.committed(inputs), await consumer.end_offsets(list(still)))
            # A partition is at rest if neither its offset nor its views' changelogs have moved.
            for tp in inputs:
                changelogs = self._changelogs(tp)
                if now.same(before, tp, changelogs):
                    committed[tp] = now.committed.get(tp)
                    rests.update({each: now.ends[each] for each in changelogs})
            settled = now == before
            if settled or (time.monotonic() > until and committed.keys() == inputs):
                break
            if time.monotonic() > until + patience:
                raise CannotAudit(
                    "some partitions commit all the time, so that no state and offset of them "
                    "belong together; audit when there is less traffic, or halt the views"
                )
            before = now
            await asyncio.sleep(PAUSE)
        firsts = await consumer.beginning_offsets(list(others))
        ends = await consumer.end_offsets(list(others))
        snapshot = AuditSnapshot(
            {tp: (at.offset, at.taken) for tp, at in committed.items() if at is not None},
            {tp: first for tp, first in firsts.items() if first},
            ends,
            once=engine.settings.guarantee == "exactly_once",
            exact=settled and all(ends[tp] == end for tp, end in now.ends.items() if tp in ends),
        )
        return snapshot, rests

    def _all(self, topics: Iterable[str]) -> set[TopicPartition]:
        return {
            TopicPartition(topic, number)
            for topic in topics
            for number in range(self.partitions.get(topic, 0))
        }

    def _changelogs(self, tp: TopicPartition) -> list[TopicPartition]:
        engine = self._app.engine
        return [
            TopicPartition(engine.changelogs[view.name], tp.partition)
            for view in engine.topology.views.values()
            if view.of.by_stream == tp.topic
            and tp.partition < self.partitions.get(engine.changelogs[view.name], 0)
        ]


@dataclass(frozen=True, slots=True)
class _Moment:
    """The group's offsets and the ends of topics, looked at one after the other."""

    committed: Mapping[TopicPartition, Committed]
    ends: Mapping[TopicPartition, int]

    def same(
        self, before: "_Moment | None", tp: TopicPartition, changelogs: Iterable[TopicPartition]
    ) -> bool:
        """Whether an input partition and its views' changelogs are as they were."""
        if before is None or self.committed.get(tp) != before.committed.get(tp):
            return False
        return all(self.ends[each] == before.ends[each] for each in changelogs)


async def _compare(consumer: AIOKafkaConsumer, made: Audit, snapshot: AuditSnapshot) -> None:
    """Run handlers again over the inputs, and compare what they say with the outputs."""
    found = ContentsCheck(made)
    ticker = Ticker("audit --contents", _records(found.topics, snapshot))
    await _feed(consumer, found.feed, found.topics, snapshot, ticker)
    ticker.end()
    there = found.sent_to & await consumer.topics()
    sent = [TopicPartition(t, n) for t in there for n in await partitions_of(consumer, t)]
    firsts, ends = await consumer.beginning_offsets(sent), await consumer.end_offsets(sent)
    begun = {tp: first for tp, first in firsts.items() if first}
    ticker = Ticker("audit --contents, messages", sum(ends.values()) - sum(firsts.values()))
    await _feed(consumer, found.sent, found.sent_to, AuditSnapshot({}, begun, ends), ticker)
    ticker.end()
    found.finish({tp.topic for tp in begun})


def _records(topics: Collection[str], snapshot: AuditSnapshot) -> int:
    """About how many records there are to feed."""
    return sum(
        max(0, end - snapshot.first(at)) for at, end in snapshot.ends.items() if at[0] in topics
    )


async def _feed(
    consumer: AIOKafkaConsumer,
    feed: Callable[[Sequence[Any]], Awaitable[None] | None],
    topics: Collection[str],
    snapshot: AuditSnapshot,
    ticker: Ticker,
) -> None:
    """Read all topics side by side, so that what belongs together comes at about the same time."""
    left = {
        TopicPartition(*place): (snapshot.first(place), end)
        for place, end in snapshot.ends.items()
        if place[0] in topics and end > snapshot.first(place)
    }
    if left:
        consumer.assign(list(left))
    for tp, (first, _) in left.items():
        consumer.seek(tp, first)
    done = dict.fromkeys(left, 0.0)
    while left:
        tp = min(left, key=done.__getitem__)
        first, end = left[tp]
        found = await consumer.getmany(tp, timeout_ms=500, max_records=CHUNK)
        records = found.get(tp, ())
        if records and records[-1].offset >= end:
            records = [record for record in records if record.offset < end]
        if records:
            working = feed(records)
            if working is not None:
                await working
        position = await consumer.position(tp)
        before, done[tp] = done[tp], (position - first) / (end - first)
        ticker.add(round((done[tp] - before) * (end - first)))
        # It is the position that passes the end: last may be a transaction's marker.
        if position >= end:
            consumer.pause(tp)
            del left[tp]


async def _located(
    consumer: AIOKafkaConsumer, topology: Topology, report: AuditReport, snapshot: AuditSnapshot
) -> Violation:
    """The first violation with its position, looked up in the input where that is not known."""
    violation = report.violations[0]
    if violation.place is not None or violation.input is None or violation.stream is None:
        return violation
    (source,) = [s for s in topology.sources.values() if s.by_stream == violation.input[0]]
    view = topology.views.get(violation.view or "")
    tp = TopicPartition(*violation.input)
    consumer.assign([tp])
    async for records in read_range(consumer, tp, snapshot.first(tp), snapshot.ends[tp]):
        for record in records:
            if event_of(source, record, view) == (violation.stream, violation.sequence):
                return violation.at(Place(tp.topic, tp.partition, record.offset))
    return violation


def _topics(topology: Topology) -> list[str]:
    """All topics of a topology but changelogs and commands."""
    found = {*topology.side_topics}
    for source in topology.sources.values():
        found |= {*source.topics, source.by_stream}
    for view in topology.views.values():
        found |= {view.output, view.redeliver_topic}
    return sorted(found)
