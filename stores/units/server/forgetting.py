"""Forgetting a subscriber that is gone for good: paths wait for all that are known."""

from collections.abc import Mapping
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from stores.units.errors import UnitError
from stores.units.kafka.row_log import OWNER, RowKey, restore_rows, row_key
from stores.units.kafka.topics import members_there, rows_topic
from stores.units.server.transactions import transactional_id
from topology.model.ending import wait_for_stop
from topology.model.printable import printable


async def forget_subscriber(
    kafka: Mapping[str, Any], destination: str, group: str, *, parked: bool = False
) -> int:
    """Delete all that is on record of a subscriber, whose servers have ended.

    If it comes back, it begins at its group's offset in Kafka. May be done again.

    Args:
        kafka: arguments of aiokafka's clients.
        destination: the topic.
        group: the subscriber.
        parked: whether its parked messages, which are nowhere else, are deleted too.

    Returns:
        The number of rows that were deleted.

    Raises:
        UnitError: a server of it runs, it is not known, or it has parked messages.
        KafkaError: Kafka cannot be reached.
    """
    admin = AIOKafkaAdminClient(**kafka)
    await admin.start()
    try:
        (described,) = await admin.describe_consumer_groups([group])
        state = described.groups[0][2]
    finally:
        await wait_for_stop(admin.close())
    if state not in ("Empty", "Dead", ""):
        raise UnitError(
            f"a unit server of {printable(group)} runs, or has ended less than some seconds ago"
            f" (its group is {state}): stop all of them, and try again"
        )
    members, partitions = await members_there(kafka, destination)
    producers = [
        AIOKafkaProducer(**kafka, transactional_id=transactional_id(destination, group, member))
        for member in range(members)
    ]
    try:
        found = []
        for member, producer in enumerate(producers):
            await producer.start()  # nobody else writes its rows from here on
            rows = await restore_rows(kafka, destination, group, member, member % partitions)
            found.append({key: value for key, value in rows.items() if not _is_forgotten(value)})
        many = sum(key[0] == "message" for rows in found for key in rows)
        if many and not parked:
            raise UnitError(
                f"{printable(group)} has {many} parked messages, which would be lost: redrive or"
                " move them, or say that they are to be deleted"
            )
        if not any(found):
            raise UnitError(f"nothing is known of a subscriber {printable(group)}")
        for member, (producer, rows) in enumerate(zip(producers, found, strict=True)):
            if rows:
                async with producer.transaction():
                    for key, value in rows.items():
                        name = row_key(group, member, key)
                        data = _forgotten(key, value)
                        await producer.send(
                            rows_topic(destination), data, name, member % partitions
                        )
    finally:
        for producer in producers:
            await wait_for_stop(producer.stop())
    return sum(map(len, found))


def _forgotten(key: RowKey, value: Any) -> bytes | None:
    """Nothing, but for the owner's epoch: consumers heed none with a lower one."""
    if key != (OWNER,):
        return None
    return orjson.dumps({"epoch": value.get("epoch", 0), "forgotten": True})


def _is_forgotten(value: Any) -> bool:
    return isinstance(value, dict) and value.get("forgotten") is True
