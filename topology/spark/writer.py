"""Write a batch's outputs to Kafka: one transaction, with the offsets that it read up to.

The offsets are committed for the query's group, with the query's id beside them, and the batch's
number and when it was made. So a batch that Spark runs again after a crash is written once: what is
committed says whether it was. Where an older copy of the checkpoint was put back, or its newest
note was lost, the number is another batch's too, which is written. The transactional id is the
group's, so that starting a writer fences off the one of a driver that is thought to be dead.
"""

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Sequence
from operator import itemgetter
from typing import Any, TypeVar

import orjson
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.structs import OffsetAndMetadata

from stores.kafka_offsets import group_offsets
from topology.declaration.topology import Topology
from topology.spark.clock import Ends
from topology.spark.codec import OutgoingRecord
from topology.spark.settings import Settings
from topology.spark.topics import Topics

T = TypeVar("T")

NONE = -1, -1
"""What is written before a query's first batch."""
logger = logging.getLogger("topology.spark")
BATCH_BYTES = 1 << 20
REQUEST_BYTES = 16 << 20
TIMEOUT_MS = 300_000
"""How long a batch's outputs may take to be written before the broker gives its transaction up."""


class OutputWriter:
    """Writes the batches of one query, in a thread of its own, since Spark's are not asyncio's.

    Every method waits, and raises aiokafka's errors, or CannotRun.
    """

    def __init__(self, settings: Settings, topology: Topology) -> None:
        self.group = settings.group or f"{topology.name}.spark"
        self._settings = settings
        self._topology = topology
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._turn = 0
        self._ends: Ends = {}
        self._partitions: dict[str, int] = {}

    def start(self, query: str | None) -> None:
        """Connect, make topics, fence earlier writers off.

        query: the id of the checkpoint's query, None for a new one.
        """
        self._thread.start()
        self._wait(self._start())
        self.written = NONE if query is None else self._wait(self._written(query))

    def write(
        self, query: str, batch: tuple[int, int], records: Sequence[OutgoingRecord], ends: Ends
    ) -> None:
        """Write a batch, unless it is written already. batch: its number, and when it was made."""
        if batch == self.written:
            return
        if batch[0] <= self.written[0]:
            logger.warning(
                "batch %d of the checkpoint is not the one that was written under this number: the "
                "checkpoint is older than the outputs, which are written again from here on",
                batch[0],
            )
        # A batch in which nothing came and nothing was due leaves no trace.
        if records or ends != self._ends:
            self._wait(self._write(query, batch, records, ends))
        self.written, self._ends = batch, ends

    def close(self) -> None:
        """Let go of the broker."""
        if self._thread.is_alive():
            self._wait(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self) -> None:
        connection = self._settings.connection
        self._admin = AIOKafkaAdminClient(**connection)
        self._producer = AIOKafkaProducer(
            **connection,
            acks="all",
            transactional_id=self.group,
            transaction_timeout_ms=TIMEOUT_MS,
            max_batch_size=BATCH_BYTES,
            max_request_size=REQUEST_BYTES,
            retry_backoff_ms=10,
        )
        self._topics = Topics(
            self._admin, self._settings.replication, self._settings.side_retention_days
        )
        await self._admin.start()
        await self._topics.prepare(self._topology)
        # Committed offsets are asked for only when no earlier writer can change them any more.
        await self._producer.start()

    async def _written(self, query: str) -> tuple[int, int]:
        """The query's last batch that is written, `NONE` if none is."""
        found = await group_offsets(self._admin, self.group, stable=True)
        batches = [NONE]
        for committed in found.values():
            try:
                noted = orjson.loads(committed.metadata or b"{}")
            except orjson.JSONDecodeError:  # of another consumer, which had the group before
                continue
            if isinstance(noted, dict) and noted.get("query") == query:
                batches.append((int(noted["batch"]), int(noted.get("made", -1))))
        # Those of partitions that are read no more are older.
        return max(batches, key=itemgetter(1))

    async def _write(
        self, query: str, batch: tuple[int, int], records: Iterable[OutgoingRecord], ends: Ends
    ) -> None:
        placed: dict[tuple[str, int], list[OutgoingRecord]] = defaultdict(list)
        for record in records:
            placed[record.topic, await self._partition(record)].append(record)
        noted = orjson.dumps({"query": query, "batch": batch[0], "made": batch[1]}).decode()
        offsets = {
            TopicPartition(topic, int(partition)): OffsetAndMetadata(offset, noted)
            for topic, partitions in ends.items()
            for partition, offset in partitions.items()
        }
        producer = self._producer
        async with producer.transaction():
            sending = [
                future
                for (topic, partition), found in placed.items()
                for future in await self._send(topic, partition, found)
            ]
            await asyncio.gather(*sending)
            await producer.send_offsets_to_transaction(offsets, self.group)

    async def _send(
        self, topic: str, partition: int, records: Iterable[OutgoingRecord]
    ) -> list[Any]:
        """Send the records of a partition. Returns what to wait for."""
        # Not the batch's own time: it may be run again days later, and Kafka deletes by this one.
        now = int(time.time() * 1000)
        producer, sent = self._producer, []
        batch = producer.create_batch()
        for record in records:
            found = {
                "key": record.key, "value": record.value, "timestamp": now,
                "headers": record.headers,
            }  # fmt: skip
            if batch.append(**found) is None:
                batch.close()
                sent.append(await producer.send_batch(batch, topic, partition=partition))
                batch = producer.create_batch()
                batch.append(**found)
        batch.close()
        sent.append(await producer.send_batch(batch, topic, partition=partition))
        return sent

    async def _partition(self, record: OutgoingRecord) -> int:
        """As Faust's runtime has it: the input's where the topics match, else the key's."""
        if (count := self._partitions.get(record.topic)) is None:
            await self._topics.count(record.topic, record.inputs)
            # The producer has to know of a topic that was made a moment ago: a batch for one that
            # it has not heard of would wait until it is too late.
            count = len(await self._producer.partitions_for(record.topic))
            self._partitions[record.topic] = count
        if record.partition >= 0 and count == record.inputs:
            return record.partition
        if record.key is None:
            self._turn += 1
            return self._turn % count
        numbers = list(range(count))
        return int(DefaultPartitioner()(record.key, numbers, numbers))

    async def _close(self) -> None:
        await asyncio.gather(
            *(each.stop() for each in (getattr(self, "_producer", None),) if each is not None),
            *(each.close() for each in (getattr(self, "_admin", None),) if each is not None),
            return_exceptions=True,
        )
