"""Partitions in which an open transaction hides what is behind its beginning.

Whoever reads committed records only is told that such a partition ends there.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from topology.faust.kafka.clients import connected_consumer
from topology.model.ending import wait_for_stop

HELD, PAUSE = 10.0, 0.25
"""Seconds in which a transaction ends that nothing is wrong with; and from one look to the next."""


class Held(NamedTuple):
    """The offset at which an open transaction begins, and that behind all that there is."""

    offset: int
    end: int


async def held_back(
    app: Any, committed: AIOKafkaConsumer, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Held]:
    """The partitions of which something is hidden that was there HELD seconds ago.

    committed: a consumer that sees committed records only.
    """
    everything = await connected_consumer(app, isolation_level="read_uncommitted")
    try:
        there: dict[TopicPartition, int] = await everything.end_offsets(list(partitions))
    finally:
        await wait_for_stop(everything.stop())
    until = time.monotonic() + HELD
    while True:
        ends: dict[TopicPartition, int] = await committed.end_offsets(list(there))
        there = {at: end for at, end in there.items() if ends[at] < end}
        if not there or time.monotonic() >= until:
            return {at: Held(ends[at], end) for at, end in there.items()}
        await asyncio.sleep(PAUSE)


def held_text(partition: TopicPartition, offset: int) -> str:
    """What is said of a partition in which a transaction is open that begins at an offset."""
    return (
        f"{partition.topic}/{partition.partition} is held by an open transaction at offset {offset}"
    )
