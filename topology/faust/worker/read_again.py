"""Reads a part of an input again, for the events of views that wait in memory only."""

from collections.abc import Collection
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from topology.engine.state.short_waits import WaitLimits
from topology.engine.wait_notes import InputWaits
from topology.faust.kafka.broker.shapes import configs
from topology.faust.kafka.clients import connected_consumer, read_range
from topology.model.ending import wait_for_stop

KEPT = 2 * 3_600_000
"""Milliseconds for which an input keeps its records at least, if it may be read again."""


async def limits_of(app: Any, topic: str) -> WaitLimits | None:
    """How much of a topic may be read again; None if what was read just now may be gone soon.

    The broker deletes by the records' own time, which may be long ago: only what the topic keeps
    for as long again, half of its retention, is relied on.
    """
    try:
        settings = (await configs(app, [topic])).get(topic)
    except KafkaError as error:
        if error.retriable:
            raise
        settings = None
    if settings is None or "compact" in settings.get("cleanup.policy", "compact"):
        return None
    time, size = (int(settings.get(f"retention.{each}", -1)) for each in ("ms", "bytes"))
    if 0 <= time < KEPT or size >= 0:
        return None
    return WaitLimits(age=time // 2 if time >= 0 else None)


async def read_waits(
    app: Any,
    partition: TopicPartition,
    waits: Collection[InputWaits],
    start: int,
) -> None:
    """Show a partition's records to those who look for waiting events among them.

    start: the first offset to read. Raises KafkaError.
    """
    end = max(each.end for each in waits)
    if start >= end:
        return
    consumer = await connected_consumer(app, max_partition_fetch_bytes=8 << 20)
    try:
        last = await consumer.end_offsets([partition])
        consumer.assign([partition])
        async for records in read_range(consumer, partition, start, min(end, last[partition])):
            for each in waits:
                each.take(records)
    finally:
        await wait_for_stop(consumer.stop())
