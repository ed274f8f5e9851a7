"""Sends messages for who is no coroutine."""

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer

from topology.faust.kafka.clients import connection
from topology.model.ending import wait_for_stop


class Message(Protocol):
    """A message to send; it bears the time of sending."""

    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> list[tuple[str, bytes]]: ...


class Sending:
    """A producer with an event loop of its own. Raises KafkaError."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> "Sending":
        self._producer: AIOKafkaProducer = self._loop.run_until_complete(self._start())
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.run_until_complete(wait_for_stop(self._producer.stop()))
        self._loop.close()

    async def _start(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            **connection(self._app), enable_idempotence=True, linger_ms=20, acks="all"
        )
        await producer.start()
        return producer

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages in order, and wait until the broker has all of them."""
        self._loop.run_until_complete(self._send(messages))

    async def _send(self, messages: Iterable[Message]) -> None:
        sent = [
            await self._producer.send(
                each.topic,
                each.value,
                key=each.key,
                headers=each.headers,
            )
            for each in messages
        ]
        await asyncio.gather(*sent)
