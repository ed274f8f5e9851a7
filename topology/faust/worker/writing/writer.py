"""Write commit units to Kafka: outputs, changelog rows and input offsets, packed batch by batch."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sized
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaTimeoutError
from aiokafka.producer import sender
from aiokafka.structs import OffsetAndMetadata

import stores.kafka_topics  # noqa: F401  # no topic is made by asking for it
from topology.engine.commit_unit import CommitUnit
from topology.faust.worker.writing.packing import RecordPacker, SentBatch
from topology.faust.worker.writing.partitioning import Partitions
from topology.faust.worker.writing.standing_transaction import StandingTransaction
from topology.model.ending import end_tasks, wait_for_stop

FEW = 500
"""Records of a unit that is written for the sake of who waits for it."""
BATCH_BYTES = 1 << 20
REQUEST_BYTES = 16 << 20
"""A message of the broker's full size plus what a buffer row adds must still fit."""


LONGEST = 90.0
"""Seconds of a transaction; brokers give one up after 60."""
RETRY = 3
"""Milliseconds before a step of a transaction that the broker is not ready for is tried again."""

# A transaction that follows another one closely is asked to wait while the broker still writes the
# markers of that one. aiokafka then waits 20 ms, more than all the rest of a transaction takes.
sender.BACKOFF_OVERRIDE = RETRY / 1000


class Writer(Protocol):
    """Makes units durable; one writer serves one input partition."""

    async def start(self) -> None:
        """Connect, and fence off any writer of the same partition that an old worker still runs."""

    async def commit(self, unit: CommitUnit, source: TopicPartition) -> dict[str, int]:
        """Make the unit durable. Returns view → changelog offset behind the unit's rows."""

    async def stop(self) -> None: ...


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


def _few(unit: CommitUnit) -> bool:
    """Whether a unit's records take less time than its transaction."""
    parts: list[Sized] = [
        *unit.colocated.values(), *unit.keyed.values(), *unit.rows.values()
    ]  # fmt: skip
    return sum(map(len, parts)) < FEW


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
        self._packer = RecordPacker(self.producer, changelogs, partitions)
        self._transaction = StandingTransaction(self.producer, group)

    async def start(self) -> None:
        await self.producer.start()

    async def commit(self, unit: CommitUnit, source: TopicPartition) -> dict[str, int]:
        limit = asyncio.timeout(LONGEST)
        try:
            async with limit:
                return await self._commit(unit, source)
        except TimeoutError:
            if not limit.expired():
                raise
            # aiokafka asks on for ever where a topic of the transaction is not there any more.
            raise KafkaTimeoutError(
                f"a transaction has not ended within {LONGEST:.0f} s: is one of its topics gone?"
            ) from None

    async def _commit(self, unit: CommitUnit, source: TopicPartition) -> dict[str, int]:
        few = _few(unit)
        await self._transaction.begin()
        outputs, changes = await self._packer.send(unit)
        if few:
            # One after the other: a broker that looks up whether a transaction is under way for the
            # one refuses the other meanwhile, and it has to be sent again.
            ends = await _all_acknowledged(outputs, changes)
            await self._offset(unit, source)
        else:
            # Where there is much to send, that costs less than waiting.
            ends, _ = await asyncio.gather(
                _all_acknowledged(outputs, changes), self._offset(unit, source)
            )
        await self._transaction.commit(ahead=few)
        return ends

    async def _offset(self, unit: CommitUnit, source: TopicPartition) -> None:
        await self._transaction.join()
        await self._send_offset(unit, source)

    async def _send_offset(self, unit: CommitUnit, source: TopicPartition) -> None:
        if unit.next_offset is not None:
            offset = OffsetAndMetadata(unit.next_offset, unit.intake)
            await self.producer.send_offsets_to_transaction({source: offset}, self.group)

    async def stop(self) -> None:
        await self._transaction.stop()
        await wait_for_stop(self.producer.stop())
        # One whose transaction cannot end does not stop by itself.
        if (task := self.producer._sender.sender_task) is not None and not task.done():
            await end_tasks(task)
            await wait_for_stop(self.producer.client.close())


class AcknowledgedWriter:
    """At least once: outputs are acknowledged, then changelog rows, then offsets commit."""

    def __init__(
        self,
        producer: AIOKafkaProducer,
        changelogs: Mapping[str, str],
        partitions: Partitions,
        commit_offset: Callable[[TopicPartition, int, str], Awaitable[None]],
    ) -> None:
        self._packer = RecordPacker(producer, changelogs, partitions)
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
