"""Whatever a producer does after its transaction failed raises what ended it."""

from collections.abc import Awaitable, Callable

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import IllegalOperation, ProducerFenced

from stores.kafka_topics import create_topics
from tests.conftest import BrokerAddress

pytestmark = pytest.mark.integration

Call = Callable[[AIOKafkaProducer, str], Awaitable[object]]


async def _batch(producer: AIOKafkaProducer, topic: str) -> None:
    batch = producer.create_batch()
    batch.append(key=b"k", value=b"v", timestamp=None)
    await producer.send_batch(batch, topic, partition=1)


async def _in_one(producer: AIOKafkaProducer, topic: str) -> None:
    async with producer.transaction():
        raise AssertionError("it has begun")


CALLS: dict[str, Call] = {
    "begin": lambda producer, _: producer.begin_transaction(),
    "block": _in_one,
    "send": lambda producer, topic: producer.send(topic, b"v", b"k"),
    "send a batch": _batch,
    "offsets": lambda producer, topic: producer.send_offsets_to_transaction(
        {TopicPartition(topic, 0): 1}, "group"
    ),
    "commit": lambda producer, _: producer.commit_transaction(),
    "abort": lambda producer, _: producer.abort_transaction(),
}


async def test_a_producer_that_was_fenced_says_so_whatever_it_does_next(
    broker: BrokerAddress, unique: Callable[[str], str]
) -> None:
    topic, own = unique("fenced"), unique("id")
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
    await admin.start()
    await create_topics(admin, [NewTopic(topic, 2, 1)])
    await admin.close()
    made = [
        AIOKafkaProducer(bootstrap_servers=broker.address, transactional_id=own) for _ in range(2)
    ]
    first, second = made
    try:
        await first.start()
        await first.begin_transaction()
        await first.send_and_wait(topic, b"v", b"k", 0)
        await second.start()
        with pytest.raises(ProducerFenced):
            await (await first.send(topic, b"v", b"k", 1))
        raised = {}
        for name, call in CALLS.items():
            try:
                await call(first, topic)
            except Exception as error:
                raised[name] = type(error)
        assert raised == dict.fromkeys(CALLS, ProducerFenced)
    finally:
        for producer in made:
            await producer.stop()


async def test_a_call_out_of_turn_is_still_refused_as_one(broker: BrokerAddress) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.address, transactional_id="out-of-turn")
    try:
        await producer.start()
        with pytest.raises(IllegalOperation, match="Not in the middle of a transaction"):
            await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "group")
    finally:
        await producer.stop()
