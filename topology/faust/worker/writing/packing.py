"""Packs the records of a commit unit into record batches, and sends them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer

from topology.engine.commit_unit import NO_HEADERS, CommitUnit, Out
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.writing.partitioning import Partitions


class SentBatch(NamedTuple):
    """A record batch on its way, and how many records it has."""

    future: Any
    records: int


class RecordPacker:
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
                outputs += await self._keyed(topic, records, count, unit.partition % count)
        for topic, records in unit.keyed.items():
            if records:
                count = await self.partitions.count(topic, inputs)
                settled = unit.partition % count if topic in unit.settled else None
                outputs += await self._keyed(topic, records, count, settled)
        for view, rows in unit.rows.items():
            now = wall()
            changelog = [(key, value, now, NO_HEADERS) for key, value in rows]
            changes[view] = await self._pack(self.changelogs[view], unit.partition, changelog)
        return outputs, changes

    async def _keyed(
        self, topic: str, records: list[Out], count: int, without_key: int | None = None
    ) -> list[SentBatch]:
        """Send records by key. without_key: where those without one go; else they take turns."""
        of = self.partitions.of
        by_partition: dict[int, list[Out]] = defaultdict(list)
        for record in records:
            at = without_key if record[0] is None else None
            by_partition[of(record[0], count) if at is None else at].append(record)
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
        # Who waits for all of them hears of the first that fails.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
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
