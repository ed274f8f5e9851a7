"""Partitions that stand still: there is something to read, a worker has them, and nothing moves.

A full disk does that, a handler that does not end, a worker that hangs: the worker's log says it.
"""

import asyncio
import time
from collections.abc import Collection
from contextlib import aclosing
from typing import NamedTuple, TypeAlias

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from topology.diagnostics.explain import of_counts
from topology.engine.state.positions import decode_positions
from topology.engine.state.rows import POSITIONS
from topology.faust.inspection.durable import DurableState

STILL, PAUSE = 10.0, 0.5
"""Seconds in which a partition with unread records moves on; and from one look to the next."""


class Apart(NamedTuple):
    """A view that reads a partition apart from the others, at a position of its own."""

    view: str
    source: TopicPartition
    changelog: TopicPartition
    position: int


Reader: TypeAlias = TopicPartition | Apart
"""The views that read a partition together, by its name; or one that reads it apart."""


async def standing_still(
    durable: DurableState,
    readers: Collection[Reader],
    aligned: Collection[Collection[TopicPartition]] = (),
) -> set[Reader]:
    """Who has unread records before it, and does not move: neither the group's offset in a
    partition nor the own position of a view.

    aligned: partitions of a source; one of them that is ahead waits for slower ones.
    """
    together = [each for each in readers if isinstance(each, TopicPartition)]
    apart = [each for each in readers if isinstance(each, Apart)]
    logs = await durable.span({each.changelog for each in apart})
    read = {each: logs[each.changelog].end for each in apart}
    spans = await durable.span({*together, *(each.source for each in apart)})
    committed = await durable.committed(together)
    at: dict[Reader, int] = {
        each: committed[each].offset if each in committed else spans[each].first
        for each in together
    }
    at.update({each: each.position for each in apart})
    times: dict[Reader, int] = {}
    for each, position in at.items():
        source = each.source if isinstance(each, Apart) else each
        start, end = max(position, spans[source].first), spans[source].end
        if (time_of := await _next(durable, source, start, end)) is not None:
            times[each] = time_of
    still, until = set(times), time.monotonic() + STILL
    while still and time.monotonic() < until:
        await asyncio.sleep(PAUSE)
        group = [each for each in still if isinstance(each, TopicPartition)]
        now = await durable.committed(group) if group else {}
        still -= {each for each in group if each in now and now[each].offset != at[each]}
        for view in [each for each in still if isinstance(each, Apart)]:
            if await _moved(durable, view, read):
                still.remove(view)
    for view in [each for each in still if isinstance(each, Apart)]:
        # It may have moved before its changelog was looked at, and have nothing to read since.
        declared, number = durable.topology.views[view.view], view.source.partition
        task = await durable.task(declared, number, of_counts)
        if task.state.positions.input != view.position:
            still.remove(view)
    return {each for each in still if not _waits(each, times, still, aligned)}


async def _next(
    durable: DurableState, partition: TopicPartition, start: int, end: int
) -> int | None:
    """The time of the next record (ms), 0 if it cannot be read. None if there is none: the last
    offsets may be the markers of transactions."""
    try:
        async with (
            asyncio.timeout(STILL),
            aclosing(durable.records(partition, start, end)) as unread,
        ):
            async for record in unread:
                return record.timestamp
    except (KafkaError, TimeoutError):
        return 0
    return None


async def _moved(durable: DurableState, view: Apart, read: dict[Apart, int]) -> bool:
    """Whether a view says that it is somewhere else. read: how far its changelog has been read."""
    start, read[view] = read[view], (await durable.span([view.changelog]))[view.changelog].end
    moved = False
    async for record in durable.records(view.changelog, start, read[view]):
        if record.key == POSITIONS:
            moved |= decode_positions(record.value).input != view.position
    return moved


def _waits(
    partition: Reader,
    times: dict[Reader, int],
    still: Collection[Reader],
    aligned: Collection[Collection[TopicPartition]],
) -> bool:
    """Whether a partition may wait for one that moves and has older records before it."""
    return any(
        times[other] < times[partition]
        for together in aligned
        if partition in together
        for other in together
        if other in times and other not in still
    )
