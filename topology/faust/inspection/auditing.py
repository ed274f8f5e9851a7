"""Audit what is in Kafka: note the ends, read all topics of a topology up to them, and add up."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from stores.sinks.row_changes import gc_paused
from topology.declaration.ordered_stage import stage_of
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
from topology.faust.inspection.audit_snapshot import CannotAudit, SnapshotTaker
from topology.faust.inspection.consumer_group import consumer_group
from topology.faust.inspection.durable import DurableState, TopicMissing
from topology.faust.inspection.named import named
from topology.faust.inspection.tallies import totals_of
from topology.faust.inspection.ticker import Ticker
from topology.faust.inspection.work import stages_alone, work_tallies
from topology.faust.kafka.clients import (
    connected_consumer,
    partitions_of,
    read_range,
)
from topology.model.ending import wait_for_stop

PATIENCE = 20.0
"""Seconds to wait for a moment in which nothing is committed; then something may move."""
CHUNK = 10_000
"""Records of a partition that are taken before it is another one's turn."""


async def audit(
    app: Any, *, patience: float = PATIENCE, views: Collection[str] = (), contents: bool = False
) -> AuditReport:
    """Prove from all topics of a topology that every message is in one place, and once.

    Args:
        app: what `compile` made; no worker is needed, and none is disturbed.
        patience: seconds to wait for a moment in which no worker commits.
        views: the names of those to audit, with their sources; all unless given.
        contents: run handlers again, and compare what they yield with what is recorded.

    Returns:
        The report: `clean` if there is neither a violation nor bad news, `str()` of it as text.

    Raises:
        CannotAnswer: there is no such view, or nothing to audit.
        KafkaError: the broker does not answer, or refuses it.
    """
    engine = app.engine
    for name in views:
        try:
            named("view", name, engine.topology.views, engine.topology.name)
        except KeyError as error:
            raise CannotAudit(error.args[0]) from None
    consumer = await connected_consumer(app, max_partition_fetch_bytes=1 << 20)
    try:
        found = await SnapshotTaker.begin(app, consumer)
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
        for stage in (stage for view in made.views if (stage := stage_of(view)) is not None):
            topic = engine.changelogs[stage.name]
            for number in range(found.partitions.get(topic, 0)):
                tp = TopicPartition(topic, number)
                if tp not in changelogs:
                    made.moving.add(stage.view.name)
                    continue
                consumer.assign([tp])
                async for records in read_range(consumer, tp, snapshot.first(tp), changelogs[tp]):
                    for record in records:
                        made.work_row(stage.view.name, record)
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
        workers = [view for view in made.views if view.work is not None]
        routes = engine.topology.routes.values() if not views else ()
        alone = not views and any(not each.arrivals for each in engine.topology.stages)
        if workers or routes or alone:
            try:
                async with DurableState(app) as durable:
                    group = await consumer_group(app)
                    for view in workers:
                        report.add_work(view.name, await work_tallies(durable, group, view))
                    if not views:
                        report.parallel = await stages_alone(durable, group)
                    report.routes = [await totals_of(durable, group, each) for each in routes]
            except TopicMissing as missing:
                # Of something that was just declared, say, whose workers have not begun.
                what = "workers and routes" if routes else "workers"
                report.unseen.append(f"{what} not looked at, as {missing}")
        if report.violations:
            report.violations[0] = await _located(consumer, engine.topology, report, snapshot)
        return report
    finally:
        await wait_for_stop(consumer.stop())


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
