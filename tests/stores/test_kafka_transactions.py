"""Whatever a producer does after its transaction failed raises what ended it."""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    IllegalOperation,
    KafkaConnectionError,
    MessageSizeTooLargeError,
    ProducerFenced,
)
from aiokafka.protocol.produce import ProduceRequest
from confluent_kafka.cimpl import NewTopic as KafkaTopic

from stores.kafka_topics import create_topics
from tests.conftest import BrokerAddress, make_topics
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


async def test_a_producer_without_transactions_goes_on_behind_what_was_refused(
    broker: BrokerAddress, unique: Callable[[str], str]
) -> None:
    """All that followed was out of order to the broker, for as long as the process lived."""
    name = unique("refused")
    make_topics(broker.address, KafkaTopic(name, 1, 1, config={"max.message.bytes": "500"}))
    producer = AIOKafkaProducer(bootstrap_servers=broker.address, enable_idempotence=True)
    await producer.start()
    try:
        ends = []
        for _ in range(2):
            ends.append((await producer.send_and_wait(name, b"small", b"k")).offset)
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(name, b"x" * 2000, b"k")
        ends.append((await producer.send_and_wait(name, b"small", b"k")).offset)
        assert ends == [0, 1, 2]
    finally:
        await wait_for_stop(producer.stop())


async def test_no_number_is_taken_back_while_others_are_given(broker: BrokerAddress) -> None:
    # A batch that has waited for too long fails while those behind it are taken.
    producer = AIOKafkaProducer(bootstrap_servers=broker.address, enable_idempotence=True)
    await producer.start()
    try:
        numbering: Any = producer._txn_manager
        waiting = producer._message_accumulator
        for number in (0, 1):
            batch = waiting.create_builder()
            batch.append(key=b"k", value=b"v", timestamp=None)
            waiting._append_batch(batch, TopicPartition("none", number))
        first = waiting._pop_batch(TopicPartition("none", 0))
        first.failure(KafkaConnectionError("nobody leads it"))
        second = waiting._pop_batch(TopicPartition("none", 1))
        assert numbering.has_pid()
        second.failure(KafkaConnectionError("nor this one"))
        id = numbering.producer_id
        await producer._sender._maybe_wait_for_pid()
        assert numbering.producer_id not in (id, -1)
        assert first.future.exception()
        assert second.future.exception()
    finally:
        await wait_for_stop(producer.stop())
