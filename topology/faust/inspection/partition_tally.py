"""A view's counts in one partition, from its changelog and the group's offset."""

import asyncio
from typing import NamedTuple

from aiokafka import TopicPartition

from topology.declaration.source import Source
from topology.declaration.view import View
from topology.diagnostics.explain import (
    PartitionTally,
    came_apart,
    came_since,
    of_counts,
    tally,
)
from topology.engine.intake import IntakeCounts
from topology.faust.inspection.consumer_group import ConsumerGroup
from topology.faust.inspection.durable import DurableState
from topology.faust.kafka.offsets import Committed
from topology.model.errors import Malformed
from topology.model.origin_headers import original

COUNTED = 100_000
"""Offsets between a view that reads apart and the others of which the events are counted."""
TRIES, PAUSE = 5, 1.0
"""How often a sum that is not right is taken again, and after how many seconds: a commit unit
shows in one topic a moment before it does in another."""
_NONE = Committed(0, IntakeCounts())


class _Between(NamedTuple):
    events: int
    records: int


async def partition_tally(
    durable: DurableState, group: ConsumerGroup, view: View, number: int, exactly: bool
) -> PartitionTally:
    """A view's counts in one partition, taken again as long as they do not add up."""
    for left in reversed(range(TRIES)):
        found = await _looked(durable, group, view, number, exactly)
        if not left or tally(view.name, view.of.name, [found]).adds_up:
            return found
        await asyncio.sleep(PAUSE)
    raise AssertionError("unreachable")


async def _looked(
    durable: DurableState, group: ConsumerGroup, view: View, number: int, exactly: bool
) -> PartitionTally:
    """One look. The counts are of a moment between the group's offset before and after."""
    source = TopicPartition(view.of.by_stream, number)
    before = (await durable.committed([source])).get(source, _NONE)
    task = await durable.task(view, number, of_counts)
    after = (await durable.committed([source])).get(source, _NONE)
    span = (await durable.span([source]))[source]
    position, low, high = after.offset, before.taken.events, after.taken.events
    lag = max(0, span.written - max(position, span.first))
    if (own := task.state.positions.input) is not None:
        position, lag = own, max(0, span.written - max(own, span.first))
        between = await _between(durable, view.of, source, own, after.offset)
        events = None if between is None else between.events
        low, high = came_apart(own, after.offset, after.taken.events, events)
        if between is not None and own < after.offset:
            # Between its position and the others' there is a marker for each transaction.
            lag = between.records + max(0, span.written - after.offset)
    positions = task.state.positions
    if positions.missed is not None:
        low, high = low - positions.missed, high - positions.missed
    elif positions.began is not None:
        seen = await _between(durable, view.of, source, positions.began, position)
        events = None if seen is None else seen.events
        low, high = came_since(positions.began, position, low, high, events)
    return PartitionTally(
        number,
        task.state.counts,
        position,
        lag,
        own is not None,
        task.halted,
        low,
        high if exactly else None,
        group.owners.get(source),
    )


async def _between(
    durable: DurableState, source: Source, partition: TopicPartition, one: int, other: int
) -> _Between | None:
    """What there is between two offsets, None if that would take long to count."""
    start, end = sorted((one, other))
    first = (await durable.span([partition]))[partition].first
    if end - start > COUNTED or start < first:
        return None
    events, records, counts = 0, 0, source.sequence
    async for record in durable.records(partition, start, end):
        records += 1
        try:
            found = source.inspect(record if source.keyed else original(record))
        except Malformed:
            continue
        events += found is not None and _counts(found[1], counts.start, counts.step)
    return _Between(events, records)


def _counts(sequence: int, start: int, step: int) -> bool:
    return sequence >= start and (sequence - start) % step == 0
