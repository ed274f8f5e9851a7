"""Each view's counts, and whether they add up to what came in."""

import asyncio
from dataclasses import asdict, dataclass, replace
from typing import Any

from aiokafka import TopicPartition

from topology.declaration.source import Source
from topology.declaration.view import View
from topology.diagnostics.explain import (
    Partition,
    SourceTotals,
    ViewTally,
    came_apart,
    came_since,
    of_counts,
    source_totals,
    tally,
)
from topology.diagnostics.explain.tally import SHARE
from topology.diagnostics.explain.trouble import Trouble
from topology.engine.intake import Taken
from topology.faust.inspection.durable import DurableState, Group
from topology.faust.kafka.offsets import Committed
from topology.model.errors import Malformed
from topology.model.event import Message
from topology.model.origin import REASON, original

COUNTED = 100_000
"""Offsets between a view that reads apart and the others of which the events are counted."""
TRIES, PAUSE = 5, 1.0
"""How often a sum that is not right is taken again, and after how many seconds: a commit unit
shows in one topic a moment before it does in another."""
SAMPLED = 5000
"""Offsets at the end of the malformed topic in which one of a source is looked for."""
_NONE = Committed(0, Taken())


@dataclass(frozen=True, slots=True)
class Tallies:
    """What the sources brought, and the views' sums."""

    sources: list[SourceTotals]
    views: list[ViewTally]

    @property
    def adds_up(self) -> bool:
        """Whether every event is in exactly one place, in every view."""
        return not any(source.wrong for source in self.sources) and all(
            view.adds_up for view in self.views
        )

    def troubles(self, share: float = SHARE) -> list[Trouble]:
        """What is not well, though it adds up. share: of malformed messages that is too many."""
        malformed = [trouble for s in self.sources if (trouble := s.trouble(share))]
        return [*malformed, *(trouble for view in self.views for trouble in view.troubles)]

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON, with the verdicts."""
        views = [
            {**asdict(view), "adds_up": view.adds_up, "verdict": view.verdict}
            for view in self.views
        ]
        return {
            "adds_up": self.adds_up,
            "troubles": [asdict(trouble) for trouble in self.troubles()],
            "sources": [{**asdict(each), "share": each.share} for each in self.sources],
            "views": views,
        }


async def views(app: Any) -> Tallies:
    """Count what came and what became of it, in all views. Raises TopicMissing."""
    exactly = app.engine.settings.guarantee == "exactly_once"
    async with DurableState(app) as durable:
        group = await durable.group()
        sources = [
            await _brought(durable, source, exactly) for source in durable.topology.sources.values()
        ]
        found: list[ViewTally] = []
        for view in durable.topology.views.values():
            partitions = [
                await _partition(durable, group, view, number, exactly)
                for number in range(view.of.partitions)
            ]
            unkeyed = next(each.unkeyed for each in sources if each.source == view.of.name)
            found.append(tally(view.name, view.of.name, partitions, unkeyed))
        return Tallies(sources, found)


async def _brought(durable: DurableState, source: Source, exactly: bool) -> SourceTotals:
    ordered = [TopicPartition(source.by_stream, number) for number in range(source.partitions)]
    for left in reversed(range(TRIES)):
        read = await durable.committed(ordered)
        unkeyed, keyed = 0, None
        if not source.keyed:
            keyed = _sum(
                [c.taken for c in (await durable.committed(await durable.inputs(source))).values()]
            )
            unkeyed = await durable.unkeyed(source)
        spans = await durable.span(ordered)
        unread = sum(
            max(0, span.end - (read[tp].offset if tp in read else span.first))
            for tp, span in spans.items()
        )
        done = _sum([committed.taken for committed in read.values()])
        found = source_totals(source.name, keyed, done, unkeyed, unread, exactly_once=exactly)
        if found.wrong is None or not left:
            return (
                replace(found, sample=await _sample(durable, source)) if found.malformed else found
            )
        await asyncio.sleep(PAUSE)
    raise AssertionError("unreachable")


async def _sample(durable: DurableState, source: Source) -> str | None:
    """Where the last malformed message of a source is, and why it is one."""

    def mine(record: Message) -> bool:
        return original(record).topic in source.topics

    tail = await durable.end_of(durable.topology.malformed_topic, mine, most=SAMPLED)
    if not tail.records:
        return None
    message, reason = original(tail.records[-1]), dict(tail.records[-1].headers).get(REASON) or b""
    place = f"{message.topic}/{message.partition} offset {message.offset}"
    return f"{place}: {reason.decode('utf-8', 'replace')}"


def _sum(parts: list[Taken]) -> Taken:
    return Taken(
        sum(part.read for part in parts),
        sum(part.malformed for part in parts),
        sum(part.unknown for part in parts),
    )


async def _partition(
    durable: DurableState, group: Group, view: View, number: int, exactly: bool
) -> Partition:
    for left in reversed(range(TRIES)):
        found = await _looked(durable, group, view, number, exactly)
        if not left or tally(view.name, view.of.name, [found]).adds_up:
            return found
        await asyncio.sleep(PAUSE)
    raise AssertionError("unreachable")


async def _looked(
    durable: DurableState, group: Group, view: View, number: int, exactly: bool
) -> Partition:
    """One look. The counts are of a moment between the group's offset before and after."""
    source = TopicPartition(view.of.by_stream, number)
    before = (await durable.committed([source])).get(source, _NONE)
    task = await durable.task(view, number, of_counts)
    after = (await durable.committed([source])).get(source, _NONE)
    span = (await durable.span([source]))[source]
    position, low, high = after.offset, before.taken.events, after.taken.events
    if (own := task.positions.input) is not None:
        position = own
        between = await _between(durable, view.of, source, own, after.offset)
        low, high = came_apart(own, after.offset, after.taken.events, between)
    positions = task.positions
    if positions.missed is not None:
        low, high = low - positions.missed, high - positions.missed
    elif positions.began is not None:
        seen = await _between(durable, view.of, source, positions.began, position)
        low, high = came_since(positions.began, position, low, high, seen)
    return Partition(
        number,
        task.counts,
        position,
        max(0, span.end - max(position, span.first)),
        own is not None,
        task.halted,
        low,
        high if exactly else None,
        group.owners.get(source),
    )


async def _between(
    durable: DurableState, source: Source, partition: TopicPartition, one: int, other: int
) -> int | None:
    """How many events there are between two offsets, None if that would take long to count."""
    start, end = sorted((one, other))
    first = (await durable.span([partition]))[partition].first
    if end - start > COUNTED or start < first:
        return None
    number, counts = 0, source.sequence
    async for record in durable.records(partition, start, end):
        try:
            found = source.inspect(record if source.keyed else original(record))
        except Malformed:
            continue
        number += found is not None and _counts(found[1], counts.start, counts.step)
    return number


def _counts(sequence: int, start: int, step: int) -> bool:
    return sequence >= start and (sequence - start) % step == 0
