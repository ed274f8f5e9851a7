"""Each view's counts, and whether they add up to what came in."""

import asyncio
import math
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

from aiokafka import TopicPartition

from topology.declaration.ordered_stage import OrderedStage, stage_of
from topology.declaration.policies import Retry
from topology.declaration.route import Route
from topology.declaration.source import Source
from topology.declaration.view import View
from topology.diagnostics.explain import (
    PartitionTally,
    SourceTotals,
    ViewTally,
    route_totals,
    source_totals,
    tally,
)
from topology.diagnostics.explain.bad_news import Trouble
from topology.diagnostics.explain.source_totals import SHARE
from topology.diagnostics.explain.work_tally import StageTally, WorkTally
from topology.engine.intake import sum_of
from topology.faust.inspection.consumer_group import ConsumerGroup, consumer_group
from topology.faust.inspection.durable import DurableState
from topology.faust.inspection.partition_tally import PAUSE, TRIES, partition_tally
from topology.faust.inspection.standing_still import STILL, Apart, Reader, standing_still
from topology.faust.inspection.work import alone, stage_tallies
from topology.faust.kafka.open_transactions import held_text
from topology.model.event import Message
from topology.model.origin_headers import REASON, original

UNLIMITED = 60.0
"""Seconds that an event may take whose view sets no time limit, before it is said to be late."""
AHEAD = 5000
"""Milliseconds that a message may be ahead of the workers' clock, and its time is believed."""
SAMPLED = 5000
"""Offsets at the end of the malformed topic in which one of a source is looked for."""


@dataclass(frozen=True, slots=True)
class ViewCounts:
    """What the sources brought, and the views' sums.

    Attributes:
        sources: what each source brought.
        views: the sums of each view over its partitions.
        parallel: what `Topology.parallel` declares.
    """

    sources: list[SourceTotals]
    views: list[ViewTally]
    parallel: list[StageTally] = field(default_factory=list)

    @property
    def adds_up(self) -> bool:
        """Whether every event is in exactly one place, in every view."""
        return not any(source.wrong for source in self.sources) and all(
            view.adds_up for view in self.views
        )

    def troubles(self, share: float = SHARE) -> list[Trouble]:
        """What is not well, though it adds up.

        Args:
            share: of malformed messages, from which on they are bad news (0 to 1).
        """
        of_sources = [trouble for each in self.sources for trouble in each.troubles(share)]
        of_views = [trouble for view in self.views for trouble in view.troubles]
        return [*of_sources, *of_views, *(t for stage in self.parallel for t in stage.troubles)]

    def as_dict(self, share: float = SHARE) -> dict[str, Any]:
        """The same for JSON, with the verdicts.

        Args:
            share: as in `troubles`.
        """
        views = [
            {**asdict(view), "adds_up": view.adds_up, "verdict": view.verdict}
            for view in self.views
        ]
        return {
            "adds_up": self.adds_up,
            "troubles": [asdict(trouble) for trouble in self.troubles(share)],
            "sources": [{**asdict(each), "share": each.share} for each in self.sources],
            "views": views,
            "parallel": [asdict(each) for each in self.parallel],
        }


async def views(app: Any) -> ViewCounts:
    """Count what came and what became of it, in all views.

    Args:
        app: what `compile` made; no worker is needed, and none is disturbed.

    Returns:
        What each source brought, and the sums of each view.

    Raises:
        TopicMissing: no worker of the topology has run yet.
    """
    exactly = app.engine.settings.guarantee == "exactly_once"
    async with DurableState(app) as durable:
        group, topology = await consumer_group(app), durable.topology
        declared: list[Source | Route] = [
            *topology.sources.values(),
            *topology.routes.values(),
        ]
        await durable.find_held(declared)
        sources = [
            await totals_of(durable, group, each)
            if isinstance(each, Route)
            else await _source_totals(durable, each, exactly)
            for each in declared
        ]
        inputs = [await _owned_inputs(durable, group, each) for each in declared]
        parts = {
            view.name: [
                await partition_tally(durable, group, view, number, exactly)
                for number in range(view.of.partitions)
            ]
            for view in topology.views.values()
        }
        reading = {
            _reader(app, view, each)
            for view in topology.views.values()
            for each in parts[view.name]
            if _is_to_move(view, each)
        }
        by_themselves = await alone(durable)
        of_views = [each for view in topology.views.values() if (each := stage_of(view))]
        stages = [*of_views, *by_themselves]
        before = {each.name: await stage_tallies(durable, group, each) for each in stages}
        waiting = {
            TopicPartition(stage.topic, each.number)
            for stage in stages
            for each in before[stage.name]
            if each.open and _is_late(stage, each)
        }
        of_sources = inputs[: len(topology.sources)]
        still = await standing_still(durable, {*reading, *waiting, *chain(*inputs)}, of_sources)
        sources = [
            replace(
                each,
                still=tuple(f"{at[0]}/{at[1]}" for at in own if at in still),
                held=_held(durable, of),
            )
            for of, each, own in zip(declared, sources, inputs, strict=True)
        ]

        async def looked_again(stage: OrderedStage) -> tuple[WorkTally, ...]:
            then = before[stage.name]
            numbers = [each.number for each in then]
            held = {n for n in numbers if TopicPartition(stage.topic, n) in still}
            if not held:
                return then
            # What is done ahead of the oldest does not move the group's offset.
            now = await stage_tallies(durable, group, stage)
            return tuple(
                replace(each, still=each.number in held and each.committed == old.committed)
                for each, old in zip(now, then, strict=True)
            )

        found: list[ViewTally] = []
        for view in topology.views.values():
            of = (each for each in sources if each.source == view.of.name and not each.routed)
            unkeyed = next(of).unkeyed
            partitions = [
                replace(each, still=_reader(app, view, each) in still) for each in parts[view.name]
            ]
            # After the counts of the first stage: what is open is not said to be processed.
            stage = stage_of(view)
            work = () if stage is None else await looked_again(stage)
            found.append(tally(view.name, view.of.name, partitions, unkeyed, work))
        parallel = [StageTally(each.name, await looked_again(each)) for each in by_themselves]
        return ViewCounts(sources, found, parallel)


async def _owned_inputs(
    durable: DurableState, group: ConsumerGroup, declared: Source | Route
) -> list[TopicPartition]:
    """The partitions of what is re-keyed, or routed, that a worker has."""
    if isinstance(declared, Source) and declared.keyed:
        return []
    return [at for at in await durable.inputs(declared) if at in group.owners]


def _held(durable: DurableState, declared: Source | Route) -> tuple[str, ...]:
    """What is said of open transactions that hide what there is to re-key, route or read."""
    own = {*declared.topics, *([declared.by_stream] if isinstance(declared, Source) else ())}
    return tuple(held_text(at, held.offset) for at, held in durable.held.items() if at[0] in own)


def _reader(app: Any, view: View, part: PartitionTally) -> Reader:
    """Whose position a view's is in a partition."""
    source = TopicPartition(view.of.by_stream, part.number)
    if not part.apart:
        return source
    changelog = TopicPartition(app.engine.changelogs[view.name], part.number)
    return Apart(view.name, source, changelog, part.position)


def _is_to_move(view: View, part: PartitionTally) -> bool:
    """Whether a view has something to read, and nobody knows what would hold it up: others do not
    wait for one apart, whose handler may take as long as it says."""
    patient = part.apart and view.timeout is not None and view.timeout > STILL
    return bool(part.lag and part.owner) and not (part.halted or patient)


def _is_late(stage: OrderedStage, work: WorkTally) -> bool:
    """Whether the oldest event should be committed by now, if all is well.

    Where the view says that it may take longer than a look at it, nobody knows.
    """
    rules, error = stage.work.rules, stage.view.error
    again = rules.delay(rules.retries) if rules.retries else 0.0
    if isinstance(error, Retry):
        again = max(again, error.delay(error.times))
    limit = rules.limit(rules.batch)
    if limit < math.inf:
        return again + limit <= STILL
    # A message's own time, which somebody has set, may be of the future.
    oldest = work.oldest if work.oldest and work.oldest < work.now + AHEAD else 0
    return work.now - oldest > (again + UNLIMITED) * 1000


async def _source_totals(durable: DurableState, source: Source, exactly: bool) -> SourceTotals:
    ordered = [TopicPartition(source.by_stream, number) for number in range(source.partitions)]
    for left in reversed(range(TRIES)):
        read = await durable.committed(ordered)
        unkeyed, keyed, positions = 0, None, dict[str, tuple[int, int]]()
        if not source.keyed:
            inputs = await durable.committed(await durable.inputs(source))
            keyed = sum_of(each.taken for each in inputs.values())
            positions = await durable.positions(source)
            unkeyed = sum(end - at for at, end in positions.values())
        spans = await durable.span(ordered)
        unread = sum(
            max(0, span.written - (read[tp].offset if tp in read else span.first))
            for tp, span in spans.items()
        )
        done = sum_of(committed.taken for committed in read.values())
        found = source_totals(source.name, keyed, done, unkeyed, unread, exactly_once=exactly)
        if found.wrong is None or not left:
            sample = await _sample(durable, source) if found.malformed else None
            return replace(found, sample=sample, positions=positions)
        await asyncio.sleep(PAUSE)
    raise AssertionError("unreachable")


async def totals_of(durable: DurableState, group: ConsumerGroup, route: Route) -> SourceTotals:
    """What a stage has routed, and what of it is parked or malformed. Raises TopicMissing."""
    inputs = await durable.inputs(route)
    found = route_totals(
        route.name,
        [each.taken for each in (await durable.committed(inputs)).values()],
        await durable.backlog(route),
        [f"{at.topic}/{at.partition}" for at in inputs if at not in group.owners],
    )
    return replace(found, sample=await _sample(durable, route)) if found.malformed else found


async def _sample(durable: DurableState, source: Source | Route) -> str | None:
    """Where the last malformed message of a source is, and why it is one."""

    def mine(record: Message) -> bool:
        return original(record).topic in source.topics

    tail = await durable.end_of(durable.topology.malformed_topic, mine, most=SAMPLED)
    if not tail.records:
        return None
    message, reason = original(tail.records[-1]), dict(tail.records[-1].headers).get(REASON) or b""
    place = f"{message.topic}/{message.partition} offset {message.offset}"
    return f"{place}: {reason.decode('utf-8', 'replace')}"
