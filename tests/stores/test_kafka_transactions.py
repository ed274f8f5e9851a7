"""Whatever a producer does after its transaction failed raises what ended it."""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import IllegalOperation, KafkaConnectionError, ProducerFenced
from aiokafka.protocol.produce import ProduceRequest

from stores.kafka_topics import create_topics
from tests.conftest import BrokerAddress
from topology.model.ending import wait_for_stop

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
            await wait_for_stop(producer.stop())


async def test_a_call_out_of_turn_is_still_refused_as_one(broker: BrokerAddress) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.address, transactional_id="out-of-turn")
    try:
        await producer.start()
        with pytest.raises(IllegalOperation, match="Not in the middle of a transaction"):
            await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "group")
    finally:
        await wait_for_stop(producer.stop())


async def test_a_producer_that_was_fenced_leaves_no_tracebacks_in_the_log(
    broker: BrokerAddress,
    topic: Callable[..., str],
    unique: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "aiokafka")  # what it logs it would keep
    there, told = topic("fenced", 3), list[dict[str, Any]]()
    named = {"bootstrap_servers": broker.address, "transactional_id": unique("id")}
    made = [AIOKafkaProducer(**named, retry_backoff_ms=1) for _ in range(2)]
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    try:
        await made[0].start()
        await _fenced_in_flight(made[0], made[1], there)
    finally:
        while made:
            await wait_for_stop(made.pop().stop())
    gc.collect()
    assert told == []


async def _fenced_in_flight(first: AIOKafkaProducer, second: AIOKafkaProducer, topic: str) -> None:
    """Fence the first one while what it produces is on its way, and is sent again later."""
    send, under_way, fenced = first.client.send, asyncio.Event(), asyncio.Event()

    async def breaks(node: int, request: Any, **more: Any) -> Any:
        if not isinstance(request, ProduceRequest):
            return await send(node, request, **more)
        under_way.set()
        await fenced.wait()
        raise KafkaConnectionError("the connection broke")

    first.client.send = breaks
    await first.begin_transaction()
    sent = [await first.send(topic, b"v", b"k", 0)]
    await under_way.wait()
    await second.start()
    sent += [await first.send(topic, b"v", b"k", number) for number in (1, 2)]
    with pytest.raises(ProducerFenced):
        await sent[-1]
    first.client.send = send
    fenced.set()
    await asyncio.wait([each for each in asyncio.all_tasks() if _sends(each)])


def _sends(task: "asyncio.Task[Any]") -> bool:
    return getattr(task.get_coro(), "__name__", "") == "_send_produce_req"
