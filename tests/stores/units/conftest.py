"""Unit servers in the test's own process, and what consumers and producers need to find them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stores.units import ServerSettings, UnitConsumer, UnitDelivery, UnitProducer, UnitServer
from tests.conftest import BrokerAddress

TOKEN = "a-token-of-the-tests"
LEASE = 60.0
"""Seconds: nobody who does not say so loses a message because the machine stood still."""


class Destination:
    """A destination of a test, with whoever sends to it and consumes from it."""

    def __init__(self, kafka: dict[str, Any], name: str) -> None:
        self.kafka, self.name, self.group = kafka, name, f"{name}-readers"

    def producer(self, **more: Any) -> UnitProducer:
        return UnitProducer(self.name, self.kafka, **more)

    def consumer(self, **more: Any) -> UnitConsumer:
        return UnitConsumer(self.name, more.pop("group", self.group), self.kafka, TOKEN, **more)

    def settings(self, **more: Any) -> ServerSettings:
        settings = {"group": self.group, "lease": LEASE, **more}
        return ServerSettings(self.name, kafka=self.kafka, token=TOKEN, **settings)

    @asynccontextmanager
    async def server(self, **more: Any) -> AsyncIterator[UnitServer]:
        server, stopped = UnitServer(self.settings(**more)), asyncio.Event()
        task = asyncio.create_task(server.run(stopped))
        ready = asyncio.create_task(server.ready.wait())
        await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
        try:
            yield server
        finally:
            ready.cancel()
            stopped.set()
            await task


async def received(consumer: UnitConsumer) -> UnitDelivery:
    """The next message, which is there."""
    found = await consumer.receive(60)
    assert found is not None
    return found


@pytest.fixture
def destination(broker: BrokerAddress, topic: Callable[..., str]) -> Callable[..., Destination]:
    """(partitions=1) → a new destination."""

    def create(partitions: int = 1) -> Destination:
        return Destination({"bootstrap_servers": broker.address}, topic("units", partitions))

    return create
