"""A partition that a consumer owns: what it hands on, and what is committed together with it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

import stores.kafka_topics  # noqa: F401  # no topic is made by asking for it
from stores.replay.recovering.group_log import partition_key
from stores.replay.recovering.switch import PartitionSwitch
from topology.model.ending import wait_for_stop

_ABORT = 5.0


class OwnedPartition:
    """A partition, and the producer of its transactions, whose start fences the owner before.

    Args:
        at: the primary.
        group: whose.
        rows: the partition in which its switch is kept.
        kafka: arguments of aiokafka's clients.
        seconds: how long a batch may take.
    """

    def __init__(
        self,
        at: TopicPartition,
        group: str,
        rows: TopicPartition,
        kafka: Mapping[str, Any],
        seconds: float,
    ) -> None:
        self.at, self.seconds, self._group, self._rows = at, seconds, group, rows
        self.switch = PartitionSwitch()
        self.lost = False
        """Whether somebody else may own it, or it is not known what was committed."""
        self.reads_primary = False
        self.recovering: TopicPartition | None = None
        self.recovery = ""
        self.not_before, self.give_up = 0.0, float("inf")
        self._written, self._told = b"", -1
        self._sent: list[Awaitable[Any]] = []
        self._open = False
        self._producer = AIOKafkaProducer(
            **{"retry_backoff_ms": 10, **kafka},
            transactional_id=f"recovering/{group}/{at.topic}/{at.partition}",
            transaction_timeout_ms=round(seconds * 1000),
        )

    async def start(self) -> None:
        """Fence the owner before: what it has not committed by now it never will."""
        await self._producer.start()

    async def stop(self) -> None:
        """Disconnect; what is not committed never is."""
        if self._open:
            with suppress(KafkaError, TimeoutError):
                await asyncio.wait_for(self._producer.abort_transaction(), _ABORT)
        await wait_for_stop(self._producer.stop())

    def restore(self, found: dict[str, Any] | None, committed: int | None, position: int) -> None:
        """Take what was kept.

        Args:
            found: of the switch; None: nothing.
            committed: the group's offset; None: there is none.
            position: where to read on the primary, if that is where it is read.
        """
        self.switch = PartitionSwitch.from_json(found, position)
        self._written = orjson.dumps(found or PartitionSwitch().to_json())
        self._told = -1 if committed is None else committed

    async def send(self, topic: str, *record: Any, **more: Any) -> None:
        """Send a message in the transaction of what was handed on, until that is lost."""
        if self.lost:
            return
        with suppress(ProducerFenced):  # then it cannot be committed either, which says so
            await self._begin()
            self._sent.append(await self._producer.send(topic, *record, **more))

    async def commit(self) -> None:
        """Commit what was sent, the position, and the switch. Raises KafkaError."""
        await self._begin()
        row = orjson.dumps(self.switch.to_json())
        if row != self._written:
            key = partition_key((self.at.topic, self.at.partition))
            self._sent.append(await self._producer.send(self._rows.topic, row, key, 0))
        position = self.switch.position
        if position != self._told:
            await self._producer.send_offsets_to_transaction({self.at: position}, self._group)
        await asyncio.gather(*self._sent)
        self._open = False  # from here on it may be committed, whatever comes
        await self._producer.commit_transaction()
        self._written, self._told, self._sent = row, position, []

    async def _begin(self) -> None:
        if not self._open:
            await self._producer.begin_transaction()
            self._open = True


@dataclass(slots=True)
class Batch:
    """Records of one partition, in order; what comes of them is committed with its position.

    Attributes:
        topic: the primary.
        partition: there, and on the recovery topic.
        records: aiokafka's, from the primary or from its recovery topic.
        recovery: the recovery that they came in; None: the primary.
    """

    topic: str
    partition: int
    records: list[Any]
    recovery: str | None
    _owned: OwnedPartition
    _commit: Callable[[], Awaitable[None]]

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Iterable[tuple[str, bytes]] = (),
    ) -> None:
        """Send a message, which is seen once the batch is committed. Raises KafkaError.

        Args:
            topic: where to.
            value: the content.
            key: of the record.
            partition: None: its key decides.
            headers: of the record.
        """
        await self._owned.send(topic, value, key, partition, headers=list(headers))

    async def commit(self) -> None:
        """Commit it now; else it is when the loop asks for the next one."""
        await self._commit()
