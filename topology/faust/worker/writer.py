"""Write commit units to Kafka: outputs, changelog rows and input offsets, packed batch by batch."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.producer import sender
from aiokafka.structs import OffsetAndMetadata

from topology.engine.commit_unit import NO_HEADERS, CommitUnit, Out
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.partitioning import Partitions

BATCH_BYTES = 1 << 20
REQUEST_BYTES = 16 << 20
"""A message of the broker's full size plus what a buffer row adds must still fit."""


RETRY = 3
"""Milliseconds before a step of a transaction that the broker is not ready for is tried again."""

# A transaction that follows another one closely is asked to wait while the broker still writes the
# markers of that one. aiokafka then waits 20 ms, more than all the rest of a transaction takes.
sender.BACKOFF_OVERRIDE = RETRY / 1000


class SentBatch(NamedTuple):
    """A record batch on its way, and how many records it has."""

    future: Any
    records: int


class Writer(Protocol):
    """Makes units durable; one writer serves one input partition."""

    async def start(self) -> None:
        """Connect, and fence off any writer of the same partition that an old worker still runs."""

    async def commit(self, unit: CommitUnit, source: TopicPartition) -> dict[str, int]:
        """Make the unit durable. Returns view → changelog offset behind the unit's rows."""

    async def stop(self) -> None: ...


class _Packer:
    """Packs a unit's records into record batches, per topic and partition."""

    def __init__(
        self, producer: AIOKafkaProducer, changelogs: Mapping[str, str], partitions: Partitions
    ) -> None:
        self.producer = producer
        self.changelogs = changelogs
        self.partitions = partitions

    async def send(self, unit: CommitUnit) -> tuple[list[SentBatch], dict[str, list[SentBatch]]]:
        """Send all records. Returns what was sent of outputs, and of changelog rows by view."""
        outputs: list[SentBatch] = []
        changes: dict[str, list[SentBatch]] = {}
        inputs = await self.partitions.count(unit.topic, 1)
        for topic, records in unit.colocated.items():
            count = await self.partitions.count(topic, inputs)
            if count == inputs:
                outputs += await self._pack(topic, unit.partition, records)
            else:
                outputs += await self._keyed(topic, records, count)
        for topic, records in unit.keyed.items():
            if records:
                count = await self.partitions.count(topic, inputs)
                outputs += await self._keyed(topic, records, count)
        for view, rows in unit.rows.items():
            now = wall()
            changelog = [(key, value, now, NO_HEADERS) for key, value in rows]
            changes[view] = await self._pack(self.changelogs[view], unit.partition, changelog)
        return outputs, changes

    async def _keyed(self, topic: str, records: list[Out], count: int) -> list[SentBatch]:
        of = self.partitions.of
        by_partition: dict[int, list[Out]] = defaultdict(list)
        for record in records:
            by_partition[of(record[0], count)].append(record)
        sent: list[SentBatch] = []
        for partition, part in by_partition.items():
            sent += await self._pack(topic, partition, part)
        return sent

    async def _pack(self, topic: str, partition: int, records: Iterable[Out]) -> list[SentBatch]:
        producer, sent = self.producer, []
        limit = self.partitions.limits.get(topic)
        batch = producer.create_batch()
        append, at = _appender(batch, limit), 0
        for key, value, timestamp, headers in records:
            if append(at, timestamp, key, value, headers) is None:
                sent.append(await self._send(batch, topic, partition, at))
                batch = producer.create_batch()
                append, at = _appender(batch, limit), 0
                append(at, timestamp, key, value, headers)
            at += 1
        if at:
            sent.append(await self._send(batch, topic, partition, at))
        return sent

    async def _send(self, batch: Any, topic: str, partition: int, records: int) -> SentBatch:
        batch._relative_offset = records
        batch.close()
        future = await self.producer.send_batch(batch, topic, partition=partition)
        return SentBatch(future, records)


def _appender(batch: Any, limit: int | None) -> Callable[..., Any]:
    """What appends a record to a batch, and returns None where the batch is full.

    The builder behind the public `append` takes positional arguments and checks nothing twice; it
    runs more often than anything else that talks to Kafka. limit: bytes of a batch, for a topic
    that takes small ones only; the first record fits in any case.
    """
    builder = batch._builder
    if limit is None:
        return builder.append  # type: ignore[no-any-return]

    def append(at: int, *record: Any) -> Any:
        if at and builder.size() + builder.size_in_bytes(at, *record) > limit:
            return None
        return builder.append(at, *record)

    return append


async def _acknowledged(sent: list[SentBatch]) -> int | None:
    """Wait until all is acknowledged. Returns the offset behind the last record."""
    end: int | None = None
    for future, count in sent:
        end = (await future).offset + count
    return end


async def _all_acknowledged(
    outputs: list[SentBatch], changes: Mapping[str, list[SentBatch]]
) -> dict[str, int]:
    """Wait for outputs and changelog rows. Returns view → changelog offset behind its rows."""
    await _acknowledged(outputs)
    ends = {view: await _acknowledged(rows) for view, rows in changes.items()}
    return {view: end for view, end in ends.items() if end is not None}


class TransactionalWriter:
    """Exactly once: a unit is one Kafka transaction.

    The transactional id is `<group>-<topic>-<partition>`, so that starting a writer fences off the
    one that an earlier owner of the partition may still have, and ends its transaction. That of a
    `view` that reads apart has the view's name behind it.
    """

    def __init__(
        self,
        group: str,
        source: TopicPartition,
        config: Mapping[str, Any],
        changelogs: Mapping[str, str],
        partitions: Partitions,
        view: str = "",
    ) -> None:
        self.group = group
        own = f"{group}-{source.topic}-{source.partition}"
        self.producer = AIOKafkaProducer(
            **_producer_config(config), transactional_id=f"{own}/{view}" if view else own
        )
        # Between the steps of a transaction, not between tries to find a broker that is gone.
        self.producer.client._retry_backoff = 0.1
        self._packer = _Packer(self.producer, changelogs, partitions)

    async def start(self) -> None:
        await self.producer.start()

    async def commit(self, unit: CommitUnit, source: TopicPartition) -> dict[str, int]:
        producer = self.producer
        await producer.begin_transaction()
        outputs, changes = await self._packer.send(unit)
        ends, _ = await asyncio.gather(
            _all_acknowledged(outputs, changes), self._send_offset(unit, source)
        )
        await producer.commit_transaction()
        return ends

    async def _send_offset(self, unit: CommitUnit, source: TopicPartition) -> None:
        if unit.next_offset is not None:
            offset = OffsetAndMetadata(unit.next_offset, unit.intake)
            await self.producer.send_offsets_to_transaction({source: offset}, self.group)

    async def stop(self) -> None:
        await self.producer.stop()


class AcknowledgedWriter:
    """At least once: outputs are acknowledged, then changelog rows, then offsets commit."""

    def __init__(
        self,
        producer: AIOKafkaProducer,
        changelogs: Mapping[str, str],
        partitions: Partitions,
        commit_offset: Callable[[TopicPartition, int, str], Awaitable[None]],
    ) -> None:
        self._packer = _Packer(producer, changelogs, partitions)
        self._commit_offset = commit_offset

    async def start(self) -> None:
        """The producer is shared and started by its owner."""

    async def commit(self, unit: CommitUnit, source: TopicPartition) -> dict[str, int]:
        rows, unit.rows = unit.rows, {}
        outputs, _ = await self._packer.send(unit)
        await _all_acknowledged(outputs, {})
        unit.rows = rows
        _, changes = await self._packer.send(CommitUnit(unit.topic, unit.partition, rows=rows))
        ends = await _all_acknowledged([], changes)
        if unit.next_offset is not None:
            await self._commit_offset(source, unit.next_offset, unit.intake)
        return ends

    async def stop(self) -> None:
        """Wait until nothing is on its way; the producer is context, and stopped by its owner.

        A step that is dropped may have sent rows. They must be in the changelog before it is read
        to its end.
        """
        await self._packer.producer.flush()


def _producer_config(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "acks": "all",
        "linger_ms": 0,
        "max_batch_size": BATCH_BYTES,
        "max_request_size": REQUEST_BYTES,
        # Each step of a transaction waits this long before it asks again; the default of 100 ms
        # would be most of a transaction's time.
        "retry_backoff_ms": RETRY,
        **config,
    }


def shared_producer(config: Mapping[str, Any]) -> AIOKafkaProducer:
    """The one producer of all AcknowledgedWriters of a worker."""
    return AIOKafkaProducer(**_producer_config(config), enable_idempotence=True)
