"""How far views are in each stream: the last progress rows of their changelogs."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka import TopicPartition

from topology.engine.state.rows import progress_key, without_state
from topology.faust.kafka.clients import connected_consumer
from topology.faust.kafka.reader import FETCH_WAIT
from topology.faust.worker.left_out import left_out
from topology.faust.worker.snapshot import Spans
from topology.model.ending import wait_for_stop

FETCH_BYTES = 4 << 20
MOST = 10_000
"""Records of one look."""
WAIT = 50
"""Milliseconds to wait for records where there are none."""

_PROGRESS = progress_key("")[0]


def progress_rows(
    app: Any, changelogs: Mapping[str, Spans], check: Callable[[], None]
) -> dict[str, dict[str, bytes]]:
    """View → its stream → its last progress row, without the stream's own dictionary.

    changelogs: of the views by name, their topic's partitions. check: called often; what it raises
    ends the reading. Raises KafkaError.

    Compaction may take from a changelog what newer rows replace, which are beyond the spans: read
    them soon after the snapshot, and once.
    """
    return asyncio.run(_read(app, changelogs, check))


async def _read(
    app: Any, changelogs: Mapping[str, Spans], check: Callable[[], None]
) -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {view: {} for view in changelogs}
    views: dict[TopicPartition, str] = {}
    spans: dict[TopicPartition, tuple[int, int]] = {}
    for view, topics in changelogs.items():
        for topic, partitions in topics.items():
            for number, span in partitions.items():
                at = TopicPartition(topic, number)
                views[at] = view
                if span[0] < span[1]:
                    spans[at] = span
    if not spans:
        return found
    consumer = await connected_consumer(
        app, fetch_max_wait_ms=FETCH_WAIT, max_partition_fetch_bytes=FETCH_BYTES
    )
    try:
        consumer.assign(list(spans))
        for at, (first, _) in spans.items():
            consumer.seek(at, first)
        while spans:
            found_now = await _next(consumer, list(spans))
            check()
            for at, records in found_now.items():
                _keep(found[views[at]], records, spans[at][1])
            for at in list(spans):
                if await consumer.position(at) >= spans[at][1]:
                    consumer.pause(at)
                    del spans[at]
    finally:
        await wait_for_stop(consumer.stop())
    return found


async def _next(consumer: Any, partitions: list[TopicPartition]) -> dict[TopicPartition, list[Any]]:
    found: dict[TopicPartition, list[Any]] = await consumer.getmany(
        *partitions, timeout_ms=WAIT, max_records=MOST
    )
    return found


def _keep(rows: dict[str, bytes], records: list[Any], end: int) -> None:
    for record in records:
        key = record.key
        if not key or key[0] != _PROGRESS or record.offset >= end or left_out(record):
            continue
        stream = key[1:].decode()
        if record.value is None:
            rows.pop(stream, None)
        else:
            rows[stream] = without_state(record.value)
