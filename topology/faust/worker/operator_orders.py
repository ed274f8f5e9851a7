"""What operators told views with workers: halt and resume, as the audit topic has them.

The first stage of a view carries commands out, and audits them. The second stage, which may be on
another worker, heeds what is recorded there: one reader serves all partitions of a worker.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from mode import get_logger

from topology.diagnostics.records import body_of
from topology.faust.kafka.clients import connected_consumer, read_range
from topology.model.ending import end_tasks, wait_for_stop

logger = get_logger(__name__)

WAIT = 200
"""Milliseconds that the broker holds a fetch back when it has nothing."""
RETRY = 1.0
"""Seconds before the topic is read on after a failure."""


class OperatorOrder(NamedTuple):
    """The last that a view was told: at which offset of the audit topic, by whom, and what."""

    offset: int
    who: str
    halts: bool


class OperatorOrders:
    """Follows the audit topic, once something asks for it.

    latest: view → the last order to it. end: the offset up to which the topic is read.
    """

    def __init__(self, app: Any, topic: str) -> None:
        self.latest: dict[str, OperatorOrder] = {}
        self.end = 0
        self._app = app
        self._partition = TopicPartition(topic, 0)
        self._consumer: AIOKafkaConsumer | None = None
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Read all orders that there are, and go on following. Raises KafkaError."""
        async with self._starting:
            if self._consumer is not None:
                return
            at = self._partition
            consumer = await connected_consumer(self._app, fetch_max_wait_ms=WAIT)
            try:
                consumer.assign([at])
                first = (await consumer.beginning_offsets([at]))[at]
                self.end = (await consumer.end_offsets([at]))[at]
                async for records in read_range(consumer, at, first, self.end):
                    self.take(records)
            except BaseException:
                await wait_for_stop(consumer.stop())
                raise
            self._consumer = consumer
            self._task = asyncio.create_task(self._follow(consumer), name="sequitur orders")

    def take(self, records: Iterable[Any]) -> None:
        """Records of the audit topic."""
        for record in records:
            self.end = max(self.end, record.offset + 1)
            body = body_of(record)
            name, view = body.get("name"), body.get("view")
            if name in ("halt", "resume") and body.get("done") is True and isinstance(view, str):
                who = str(body.get("who", "unknown"))
                self.latest[view] = OperatorOrder(record.offset, who, name == "halt")

    async def _follow(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            try:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    self.take(records)
            except KafkaError as error:
                logger.warning("%s cannot be read for now: %r", self._partition.topic, error)
                await asyncio.sleep(RETRY)

    async def stop(self) -> None:
        """Follow no longer."""
        consumer, self._consumer = self._consumer, None
        task, self._task = self._task, None
        if task is not None:
            await end_tasks(task)
        if consumer is not None:
            await wait_for_stop(consumer.stop())
