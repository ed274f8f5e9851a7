"""A consumer without a group: it reads the partitions it is sent to, from where it is told."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from topology.faust.kafka.clients import connected_consumer
from topology.faust.settings import Settings
from topology.model.ending import wait_for_stop
from topology.model.event import Message

FETCH_WAIT = 10
"""Milliseconds that the broker holds a fetch back when it has nothing. A reader of committed
records waits for all of it even if a transaction ends meanwhile: the broker does not wake it then.
"""
QUIET = 1.0
"""Seconds without a record after which the broker holds fetches back for longer."""
QUIET_WAIT = 100
"""Milliseconds then, a tenth of the requests. By so much may the next record be late, and one that
comes while the fetch is under way that was asked for as that record came."""
USUAL = 4000
"""The most records that a fetch brings, where nobody asks for more."""


class Reader:
    """Reads partitions side by side; those that nobody has sent it to bring nothing.

    wait: milliseconds that the broker holds a fetch back when it has nothing; see `QUIET`.
    """

    def __init__(self, app: Any, settings: Settings, wait: int = FETCH_WAIT) -> None:
        self._app = app
        self._wait = wait
        self._settings = settings
        self._started: AIOKafkaConsumer | None = None
        self._last_record = time.monotonic()

    async def start(self) -> None:
        """Connect, if that was not done before."""
        if self._started is None:
            self._started = await connected_consumer(
                self._app,
                max_partition_fetch_bytes=self._settings.fetch_bytes,
                fetch_max_wait_ms=self._wait,
            )
            # What one partition has not taken yet would hold the fetches of the others back.
            self._started._fetcher._prefetch_backoff = 0

    @property
    def _consumer(self) -> AIOKafkaConsumer:
        assert self._started is not None
        return self._started

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Have these partitions and no others, none of them read until `seek` says from where."""
        partitions = list(partitions)
        self._consumer.assign(partitions)
        if partitions:
            self._consumer.pause(*partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read a partition from an offset on."""
        self._consumer.seek(partition, offset)
        self._consumer.resume(partition)

    def resume(self, partition: TopicPartition) -> None:
        """Read a partition from where it was paused."""
        self._consumer.resume(partition)

    def pause(self, partition: TopicPartition) -> None:
        """Stop reading a partition."""
        if self._started is not None and partition in self._started.assignment():
            self._started.pause(partition)

    async def fetch(
        self, partition: TopicPartition, timeout: float, most: int = USUAL
    ) -> Sequence[Message]:
        """The next records of a partition, at most so many; empty if there are none in `timeout`
        seconds."""
        found = await self._consumer.getmany(
            partition,
            timeout_ms=int(timeout * 1000),
            max_records=min(most, self._settings.batch),
        )
        records: Sequence[Message] = found.get(partition, ())
        now = time.monotonic()
        if records:
            self._last_record = now
        quiet = now - self._last_record > QUIET
        fetcher = self._consumer._fetcher
        fetcher._fetch_max_wait_ms = max(self._wait, QUIET_WAIT) if quiet else self._wait
        return records

    async def position(self, partition: TopicPartition) -> int:
        """The offset up to which a partition is read."""
        position: int = await self._consumer.position(partition)
        return position

    def caught_up(self, partition: TopicPartition, offset: int) -> bool:
        """Whether the last fetch had nothing from an offset on, as far as that is known."""
        end = self._consumer.last_stable_offset(partition)
        return end is not None and offset >= end

    async def end(self, partition: TopicPartition) -> int:
        """The offset behind everything of a partition that is committed now."""
        end: int = (await self._consumer.end_offsets([partition]))[partition]
        return end

    async def first(self, partition: TopicPartition) -> int:
        """The offset of the first message that a partition still has."""
        offset: int = (await self._consumer.beginning_offsets([partition]))[partition]
        return offset

    async def stop(self) -> None:
        """Disconnect."""
        consumer, self._started = self._started, None
        if consumer is not None:
            await wait_for_stop(consumer.stop())


class AssignedPartition:
    """One of the partitions that a reader is assigned, as the engine's `PartitionReader`."""

    def __init__(self, reader: Reader, partition: TopicPartition) -> None:
        self._reader = reader
        self._partition = partition

    def seek(self, offset: int) -> None:
        self._reader.seek(self._partition, offset)

    async def fetch(self, timeout: float) -> Sequence[Message]:
        return await self._reader.fetch(self._partition, timeout)

    async def position(self) -> int:
        return await self._reader.position(self._partition)

    async def first(self) -> int:
        """The offset of the first message that there still is."""
        return await self._reader.first(self._partition)

    def caught_up(self, offset: int) -> bool:
        return self._reader.caught_up(self._partition, offset)

    async def end(self) -> int:
        return await self._reader.end(self._partition)

    def pause(self) -> None:
        self._reader.pause(self._partition)
