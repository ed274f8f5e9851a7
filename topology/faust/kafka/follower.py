"""Follows output topics for who is no coroutine: committed records, in batches."""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from topology.faust.kafka.clients import connected_consumer
from topology.faust.kafka.reader import FETCH_WAIT
from topology.model.ending import wait_for_stop

Partition = tuple[str, int]
OutputRecord = tuple[str, int, int, bytes | None]
"""(topic, partition, offset, value)."""

MOST = 20_000
"""Records of one batch."""
WAIT = 50
"""Milliseconds to wait for records where there are none."""


class Follower:
    """A consumer with an event loop of its own. Methods raise KafkaError."""

    def __init__(self, app: Any, start: Mapping[Partition, int]) -> None:
        self._loop = asyncio.new_event_loop()
        self._consumer: AIOKafkaConsumer = self._do(self._start(app, start))
        self._partitions = [TopicPartition(*at) for at in start]

    async def _start(self, app: Any, start: Mapping[Partition, int]) -> AIOKafkaConsumer:
        # Kafka withholds nothing that is committed while it waits for more.
        consumer = await connected_consumer(
            app, fetch_max_wait_ms=FETCH_WAIT, max_partition_fetch_bytes=4 << 20
        )
        consumer.assign([TopicPartition(*at) for at in start])
        for at, offset in start.items():
            consumer.seek(TopicPartition(*at), offset)
        return consumer

    def take(self) -> list[OutputRecord]:
        """The next records, in order per partition; none if none come soon."""
        found = self._do(self._consumer.getmany(timeout_ms=WAIT, max_records=MOST))
        return [
            (tp.topic, tp.partition, record.offset, record.value)
            for tp, records in found.items()
            for record in records
        ]

    def lost(self) -> list[Partition]:
        """The partitions of which records that are still to be taken are there no more."""
        found: list[Partition] = self._do(self._lost())
        return found

    async def _lost(self) -> list[Partition]:
        firsts: Mapping[TopicPartition, int]
        firsts = await self._consumer.beginning_offsets(self._partitions)
        return [
            (tp.topic, tp.partition)
            for tp, first in firsts.items()
            if await self._consumer.position(tp) < first
        ]

    def behind(self) -> int:
        """How many offsets there are up to what is committed now."""
        behind: int = self._do(self._behind())
        return behind

    async def _behind(self) -> int:
        ends: Mapping[TopicPartition, int] = await self._consumer.end_offsets(self._partitions)
        behind = 0
        for tp, end in ends.items():
            behind += max(0, end - await self._consumer.position(tp))
        return behind

    def positions(self) -> dict[Partition, int]:
        """Partition → the offset that is read next."""
        found: dict[Partition, int] = self._do(self._positions())
        return found

    async def _positions(self) -> dict[Partition, int]:
        return {
            (tp.topic, tp.partition): await self._consumer.position(tp) for tp in self._partitions
        }

    def close(self) -> None:
        """Disconnect."""
        self._do(wait_for_stop(self._consumer.stop()))
        self._loop.close()

    def _do(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
