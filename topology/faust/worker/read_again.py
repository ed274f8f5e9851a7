"""Reads a part of an input again, for the events of views that wait in memory only."""

from collections.abc import Collection
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from mode import get_logger

from topology.engine.state.short_waits import InputWaits
from topology.faust.kafka.broker.shapes import configs
from topology.faust.kafka.clients import connected_consumer, read_range
from topology.model.ending import wait_for_stop

logger = get_logger(__name__)

KEPT = 3_600_000
"""Milliseconds for which an input keeps its records at least, if it may be read again."""


async def is_kept(app: Any, topic: str) -> bool:
    """Whether what was read of a topic just now is surely there for a while yet."""
    try:
        settings = (await configs(app, [topic])).get(topic)
    except KafkaError as error:
        if error.retriable:
            raise
        settings = None
    if settings is None or "compact" in settings.get("cleanup.policy", "compact"):
        return False
    time, size = (int(settings.get(f"retention.{each}", -1)) for each in ("ms", "bytes"))
    return not 0 <= time < KEPT and size < 0


async def read_waits(
    app: Any,
    partition: TopicPartition,
    waits: Collection[InputWaits],
    start: int,
) -> None:
    """Show a partition's records to those who look for waiting events among them.

    start: the first offset to read. Raises KafkaError.
    """
    consumer = await connected_consumer(app, max_partition_fetch_bytes=8 << 20)
    try:
        end, last = max(each.again.end for each in waits), await consumer.end_offsets([partition])
        if last[partition] < end:
            logger.error(
                "%s was deleted and made again: what waited in memory only is not there any more",
                partition,
            )
            return
        consumer.assign([partition])
        async for records in read_range(consumer, partition, start, end):
            for each in waits:
                each.take(records)
    finally:
        await wait_for_stop(consumer.stop())
