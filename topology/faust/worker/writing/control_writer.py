"""What a process of a router writes to its control topic: control records, and heartbeats."""

import asyncio
from typing import Any
from uuid import uuid4

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from mode import get_logger

from topology.faust.kafka.clients import connection
from topology.model.ending import wait_for_stop
from topology.routing import ControlRecord, Left, encode_control

logger = get_logger(__name__)

LOG, BEATS = 0, 1
"""The partitions of a control topic."""
LEAVE = 2.0
"""Seconds in which a process that ends says so."""


class ControlWriter:
    """Writes for one process, once it is started. What it does raises KafkaError."""

    def __init__(self, app: Any, topic: str, process: str) -> None:
        self._app, self._topic, self._process = app, topic, process
        self._producer: AIOKafkaProducer | None = None

    async def start(self) -> None:
        """Connect, once."""
        if self._producer is None:
            producer = AIOKafkaProducer(**connection(self._app), acks="all", linger_ms=0)
            await producer.start()
            self._producer = producer

    async def say(self, record: ControlRecord | None) -> None:
        """Add a record to the log, if there is one to add."""
        if record is not None and self._producer is not None:
            # Compaction keeps every record of the log, as none has the key of another.
            key, value = uuid4().hex.encode(), encode_control(record)
            await self._producer.send_and_wait(self._topic, value, key, LOG)

    async def beat(self, said: object) -> None:
        """Write a heartbeat; None: it was the last one."""
        if self._producer is not None:
            value = None if said is None else orjson.dumps(said)
            await self._producer.send_and_wait(self._topic, value, self._process.encode(), BEATS)

    async def stop(self) -> None:
        """Leave, and disconnect."""
        producer = self._producer
        if producer is None:
            return
        try:
            async with asyncio.timeout(LEAVE):
                await self.say(Left(self._process))
                await self.beat(None)
        except (KafkaError, TimeoutError):
            logger.info("%s: others will miss this process", self._topic)
        self._producer = None
        await wait_for_stop(producer.stop())
