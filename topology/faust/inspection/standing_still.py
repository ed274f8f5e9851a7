"""Partitions that stand still: there is something to read, a worker has them, and nothing moves.

A full disk does that, a handler that does not end, a worker that hangs: the worker's log says it.
"""

import asyncio
import time
from collections.abc import Collection
from contextlib import aclosing

from aiokafka import TopicPartition

from topology.faust.inspection.durable import DurableState

STILL, PAUSE = 10.0, 0.5
"""Seconds in which a partition with unread records moves on; and from one look to the next."""


async def standing_still(
    durable: DurableState, partitions: Collection[TopicPartition]
) -> set[TopicPartition]:
    """The partitions with unread records in which the group's offset does not move."""
    spans, committed = await durable.span(partitions), await durable.committed(partitions)
    still: dict[TopicPartition, int] = {}
    for partition, span in spans.items():
        at = committed[partition].offset if partition in committed else span.first
        # The last offsets may be the markers of transactions.
        async with aclosing(durable.records(partition, max(at, span.first), span.end)) as unread:
            async for _ in unread:
                still[partition] = at
                break
    until = time.monotonic() + STILL
    while still and time.monotonic() < until:
        await asyncio.sleep(PAUSE)
        now = await durable.committed(still)
        still = {p: at for p, at in still.items() if p not in now or now[p].offset == at}
    return set(still)
