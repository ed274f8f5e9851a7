"""At least once: what a step has sent is in the changelog before anybody restores from it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.conftest import BrokerAddress
from topology.engine.commit_unit import CommitUnit
from topology.faust.worker.writing.partitioning import Partitions
from topology.faust.worker.writing.writer import AcknowledgedWriter, shared_producer

pytestmark = pytest.mark.integration


async def test_rows_of_a_step_that_is_dropped_are_waited_for(
    broker: BrokerAddress, topic: Callable[..., str]
) -> None:
    changelog = topic("changelog")
    producer = shared_producer({"bootstrap_servers": broker.address})
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.address)
    await producer.start()
    await consumer.start()
    sent = asyncio.Event()
    send = producer.client.send

    async def slowly(node: int, request: Any, **more: Any) -> Any:
        if "Produce" in type(request).__name__:
            sent.set()
            await asyncio.sleep(0.5)
        return await send(node, request, **more)

    producer.client.send = slowly

    async def one_partition(topic: str, wanted: int) -> int:
        return 1

    async def no_offset(partition: TopicPartition, offset: int, taken: str) -> None:
        raise AssertionError("the step was dropped")

    writer = AcknowledgedWriter(producer, {"v": changelog}, Partitions(one_partition), no_offset)
    try:
        unit = CommitUnit("in", 0, 1, rows={"v": [(b"p", b"1"), (b"c", b"{}")]})
        step = asyncio.create_task(writer.commit(unit, TopicPartition("in", 0)))
        await asyncio.wait_for(sent.wait(), 120)
        step.cancel()
        await asyncio.wait([step])
        await writer.stop()
        where = TopicPartition(changelog, 0)
        assert (await consumer.end_offsets([where]))[where] == 2
    finally:
        await producer.stop()
        await consumer.stop()
