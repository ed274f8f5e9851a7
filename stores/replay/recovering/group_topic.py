"""The compacted topic `<group>.recovering`, read and written."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaTimeoutError

from stores.kafka_topics import make_topics
from stores.replay.recovering.group_log import GroupLog, Request, request_key
from topology.model.ending import wait_for_stop
from topology.model.names import checked_topic

_SEGMENT = 16 << 20
_PATIENCE = 90.0
"""Seconds without a record after which the topic is away; an open transaction ends before."""


class GroupTopic:
    """What a group's consumers tell each other.

    Args:
        group: whose.
        kafka: arguments of aiokafka's clients.

    Raises:
        DeclarationError: the group's name is none of a topic.
    """

    def __init__(self, group: str, kafka: Mapping[str, Any]) -> None:
        self._kafka = dict(kafka)
        self.at = TopicPartition(checked_topic(f"{group}.recovering"), 0)
        self.log, self._lock = GroupLog(), asyncio.Lock()
        self._reader = self._consumer("read_committed")
        # Who sees the end of all that is written, behind open transactions too.
        self._raw = self._consumer("read_uncommitted")
        self._producer: AIOKafkaProducer | None = None

    def _consumer(self, isolation: str) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            **{"fetch_max_wait_ms": 50, **self._kafka},
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=isolation,
        )

    async def start(self) -> None:
        """Make the topic if it is not there, and read it."""
        configs = {"cleanup.policy": "compact", "segment.bytes": str(_SEGMENT)}
        await make_topics(self._kafka, {self.at.topic: 1}, configs)
        await self._raw.start()
        await self._reader.start()
        self._reader.assign([self.at])
        await self._reader.seek_to_beginning(self.at)
        await self.read_to_end()

    async def stop(self) -> None:
        """Disconnect."""
        for each in (self._reader, self._raw, self._producer):
            if each is not None:
                await wait_for_stop(each.stop())

    async def read(self, milliseconds: int = 0) -> None:
        """Read what is there."""
        async with self._lock:
            for records in (await self._reader.getmany(timeout_ms=milliseconds)).values():
                for record in records:
                    self.log.fold(record.key, record.value)

    async def read_to_end(self) -> None:
        """Read all that is written by now. Raises KafkaTimeoutError."""
        end = (await self._raw.end_offsets([self.at]))[self.at]
        until = time.monotonic() + _PATIENCE
        while await asyncio.wait_for(self._reader.position(self.at), _PATIENCE) < end:
            await self.read(100)
            if time.monotonic() > until:
                raise KafkaTimeoutError(f"{self.at.topic} cannot be read up to its end")

    async def say(self, request: str, step: str, said: Mapping[str, Any] | None) -> None:
        """Write a step of a request; None deletes it."""
        if self._producer is None:
            producer = AIOKafkaProducer(**self._kafka, enable_idempotence=True)
            await producer.start()
            self._producer = producer
        value = None if said is None else orjson.dumps(said, option=orjson.OPT_NON_STR_KEYS)
        await self._producer.send_and_wait(self.at.topic, value, request_key(request, step), 0)

    async def forget(self, request: Request) -> None:
        """Delete what is said of a request."""
        for step in ("asked", "running", "ended"):
            await self.say(request.id, step, None)
