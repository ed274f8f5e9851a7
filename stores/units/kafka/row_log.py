"""The rows of one member's owners, in the compacted topic `<destination>.units`.

Keys are JSON lists that begin with the subscriber and the member; values are JSON, or nothing where
a row is deleted. Rows are written in the owner's transactions only, so that those of a fenced owner
never count.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition

from stores.units.kafka.topics import rows_topic
from topology.model.ending import wait_for_stop

RowKey = tuple[str | int, ...]
OWNER = "owner"
"""Subject of the row that says who owns the member: server, URL, epoch."""
SESSION = "session"
"""Subject of the rows of sessions that may hold something."""
POSITION = "position"
"""Subject of the row of the position and of what is complete beyond it."""


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
        # By position: the end of the topic may be markers of transactions, which nobody is given.
        while await consumer.position(at) < end:
            for record in (await consumer.getmany(at, timeout_ms=100)).get(at, ()):
                yield record
    finally:
        await wait_for_stop(consumer.stop())


async def _end(kafka: Mapping[str, Any], at: TopicPartition) -> int:
    """The end of all that is written: rows may lie behind an open transaction of another owner."""
    consumer = reader(kafka, "read_uncommitted")
    await consumer.start()
    try:
        return int((await consumer.end_offsets([at]))[at])
    finally:
        await wait_for_stop(consumer.stop())
