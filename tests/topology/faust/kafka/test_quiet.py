"""A reader that hears nothing asks the broker less often, and more again when something comes."""

from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.protocol.fetch import FetchRequest

from tests.conftest import BrokerAddress
from topology import Topology
from topology.faust import compile
from topology.faust.kafka import reader as module
from topology.faust.kafka.reader import FETCH_WAIT, QUIET_WAIT, Reader
from topology.faust.settings import Settings

pytestmark = pytest.mark.integration


async def test_fetches_are_held_back_for_longer_until_something_comes(
    broker: BrokerAddress, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUIET", 600.0)  # no machine is so slow
    monkeypatch.setenv("SEQUITUR_BROKER", broker.address)
    partition = TopicPartition(topic("quiet"), 0)
    reader = Reader(compile(Topology("quiet")), Settings())
    reader._last_record -= 1_000
    await reader.start()
    waits: list[int] = []
    client: Any = reader._consumer._client
    send = client.send

    async def noting(node: int, request: Any, **words: Any) -> Any:
        if isinstance(request, FetchRequest):
            waits.append(request._max_wait_ms)
        return await send(node, request, **words)

    monkeypatch.setattr(client, "send", noting)
    try:
        reader.assign([partition])
        reader.seek(partition, 0)
        while QUIET_WAIT not in waits:
            assert not await reader.fetch(partition, 0.05)
        assert waits[0] == FETCH_WAIT
        async with AIOKafkaProducer(bootstrap_servers=broker.address) as producer:
            await producer.send_and_wait(partition.topic, b"event")
        while not await reader.fetch(partition, 0.05):
            pass
        waits.clear()
        while FETCH_WAIT not in waits:
            await reader.fetch(partition, 0.05)
            assert waits.count(QUIET_WAIT) <= 1, "the one that was under way"
    finally:
        await reader.stop()
