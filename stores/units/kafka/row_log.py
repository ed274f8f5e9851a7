"""The rows of one member's owners, in the compacted topic `<destination>.units`.

Keys are JSON lists that begin with the subscriber and the member; values are JSON, or nothing where
a row is deleted. Rows are written in the owner's transactions only, so that those of a fenced owner
never count.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaTimeoutError

from stores.units.kafka.topics import rows_topic
from topology.model.ending import wait_for_stop

RowKey = tuple[str | int, ...]
OWNER = "owner"
"""Subject of the row that says who owns the member: server, URL, epoch."""
SESSION = "session"
"""Subject of the rows of sessions that may hold something."""
POSITION = "position"
"""Subject of the row of the position and of what is complete beyond it."""

PATIENCE = 90.0
"""Seconds without a record after which a partition is away: an open transaction ends before."""


def row_key(group: str, member: int, subject: RowKey) -> bytes:
    """The record key of a row."""
    return orjson.dumps([group, member, *subject])


def read_key(key: bytes | None) -> tuple[str, int, RowKey] | None:
    """Subscriber, member and subject of a record key; None if it is none of ours."""
    try:
        found = orjson.loads(key or b"")
    except ValueError:
        return None
    match found:
        case [str(group), int(member), *subject] if subject:
            return group, member, tuple(subject)
    return None


def read_value(value: bytes | None) -> Any:
    """The value of a row; None where it is deleted or is not JSON."""
    try:
        return orjson.loads(value) if value else None
    except ValueError:
        return None


def reader(kafka: Mapping[str, Any], isolation_level: str = "read_committed") -> AIOKafkaConsumer:
    """A consumer without a group that sees what is committed."""
    return AIOKafkaConsumer(
        **{"fetch_max_wait_ms": 50, **kafka},
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level=isolation_level,
    )


async def restore_rows(
    kafka: Mapping[str, Any], destination: str, group: str, member: int, partition: int
) -> dict[RowKey, Any]:
    """All rows of a subscriber's member: subject → value. Read once its former owner is fenced."""
    at = TopicPartition(rows_topic(destination), partition)
    rows: dict[RowKey, Any] = {}
    async for record in records_of(kafka, at):
        key = read_key(record.key)
        if key is None or key[:2] != (group, member):
            continue
        if (value := read_value(record.value)) is None:
            rows.pop(key[2], None)
        else:
            rows[key[2]] = value
    return rows


async def records_of(kafka: Mapping[str, Any], at: TopicPartition) -> AsyncIterator[Any]:
    """All committed records of a partition, up to the end that it has now."""
    consumer = reader(kafka)
    await consumer.start()
    try:
        consumer.assign([at])
        await consumer.seek_to_beginning(at)
        end = await _end(kafka, at)
        async for record in read_to(consumer, at, end, PATIENCE):
            yield record
    finally:
        await wait_for_stop(consumer.stop())


async def read_to(
    consumer: AIOKafkaConsumer, at: TopicPartition, end: int, patience: float
) -> AsyncIterator[Any]:
    """The records of a partition up to an offset.

    By position: the end of the topic may be markers of transactions, which nobody is given.

    Raises:
        KafkaTimeoutError: nothing came for so many seconds: who leads the partition is away,
            or a transaction stays open in it.
    """
    place, since = -1, time.monotonic()
    while (reached := await position_of(consumer, at, patience)) < end:
        if reached > place:
            place, since = reached, time.monotonic()
        elif time.monotonic() - since > patience:
            raise _away(at)
        for record in (await consumer.getmany(at, timeout_ms=100)).get(at, ()):
            yield record


async def position_of(consumer: AIOKafkaConsumer, at: TopicPartition, patience: float) -> int:
    """Where a consumer reads on, for which aiokafka itself waits without end.

    Raises:
        KafkaTimeoutError: that is not known after so many seconds.
    """
    try:
        async with asyncio.timeout(patience):
            return int(await consumer.position(at))
    except TimeoutError:
        raise _away(at) from None


def _away(at: TopicPartition) -> KafkaTimeoutError:
    return KafkaTimeoutError(
        f"{at.topic}/{at.partition} cannot be read: its broker is away, or a transaction stays open"
    )


async def _end(kafka: Mapping[str, Any], at: TopicPartition) -> int:
    """The end of all that is written: rows may lie behind an open transaction of another owner."""
    consumer = reader(kafka, "read_uncommitted")
    await consumer.start()
    try:
        return int((await consumer.end_offsets([at]))[at])
    finally:
        await wait_for_stop(consumer.stop())
