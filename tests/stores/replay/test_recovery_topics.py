"""What of a recovery is yet to be captured, and what of it Kafka no longer has."""

from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.records_to_delete import RecordsToDelete

from stores.replay.recovery_topics import RecoveryTopics
from stores.replay.retention import Hole
from tests.conftest import BrokerAddress


@pytest.mark.integration
async def test_what_kafka_deleted_is_gone_and_what_was_not_committed_never_was_there(
    broker: BrokerAddress, topic: Callable[..., str]
) -> None:
    kafka, name = {"bootstrap_servers": broker.address}, topic("moves", 3)
    producer = AIOKafkaProducer(**kafka, transactional_id=name)
    await producer.start()
    try:
        async with producer.transaction():
            for n in range(30):
                await producer.send(name, b"%d" % n, partition=n % 3)
        await producer.begin_transaction()
        await producer.send_and_wait(name, b"never", partition=1)
        await producer.abort_transaction()
    finally:
        await producer.stop()
    admin = AIOKafkaAdminClient(**kafka)
    await admin.start()
    try:
        await admin.delete_records({TopicPartition(name, 0): RecordsToDelete(before_offset=8)})
    finally:
        await admin.close()
    topics = RecoveryTopics(kafka)
    # Offset 10 is the marker; in partition 1, 11 and 12 are what was aborted.
    ends = {0: 11, 1: 13, 2: 11}
    assert await topics.ends([name]) == {name: ends}
    waits = [(name, number, 10, end) for number, end in ends.items()]
    assert await topics.uncaptured(waits) == []
    assert await topics.uncaptured([*waits, (name, 2, 9, 11)]) is None
    assert await topics.uncaptured([(name, 0, 2, 5), *waits[1:]]) == [Hole(name, 0, 2, 4, 3, 0)]
    assert await topics.uncaptured([(name, 0, 2, 11)]) is None
    assert await topics.uncaptured([(name, 0, 10, 12)]) is None, "it may be open"
