"""A Kafka topic into an inbox: the offsets are the inbox's own, moved in the same transaction.

No consumer group is needed for that. Two feeds of one topic do not mix: each moves the offsets on
only from where it is itself, and the slower one goes back to where the inbox is.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from sqlalchemy.exc import SQLAlchemyError

from sequitur.inbox.interpret import Interpret, Malformations, interpreted, voids
from sequitur.relay.rate_limit import RateLimit
from stores.db.urls import said
from stores.inbox import Gap, Inbox, ReceiveResult, gaps
from stores.inbox.receiver import Fenced
from stores.inbox.rows import Partition, ReadRange
from stores.kafka_topics import partitions_there
from stores.message import Message
from topology.faust.kafka.records import raw
from topology.model.ending import end_tasks, wait_for_stop

logger = logging.getLogger(__name__)

RECORDS = 5_000
"""Read and received at a time."""
GAPS = 100
"""Gaps that are looked at together, and about how many are asked for at a time."""
LOOK = 5_000
"""Milliseconds after which it is looked whether topics have other partitions."""
VOID = ".void"
"""Behind a topic's name: where the relay says which of its messages are void."""


class Feed:
    """Feeds topics to an inbox. settings: of `AIOKafkaConsumer`, bootstrap_servers among them.

    ask: seconds after which the relay is asked for what is missing, and then again and again, by
    the topic `<topic>.resend`; None to wait for it.
    """

    def __init__(
        self,
        inbox: Inbox,
        topics: Mapping[str, Interpret],
        settings: dict[str, Any],
        *,
        ask: float | None = None,
    ) -> None:
        self._inbox, self._topics, self._settings = inbox, dict(topics), settings
        self._ask = ask
        self._told = RateLimit()
        self._seen: dict[tuple[str, str, int], float] = {}
        """Gaps, and since when this process knows of them."""
        self._shown: dict[tuple[str, str, int], float] = {}
        """Those that have shown since it looked at the first one last."""
        self._turn = 0
        """How many gaps it has looked at since then."""
        self.ready = asyncio.Event()
        self.positions: dict[TopicPartition, int] = {}
        """Behind what the inbox has."""
        self.failing: str | None = None
        """Why it does not go on, since it last did."""
        self.received: Callable[[ReceiveResult, float], None] = lambda result, seconds: None
        """Is told what became of each batch, and how long it took."""
        self._consumer: Any = None
        self._receiving = False
        """Whether something was read that is not in `positions` yet."""

    async def run(self, stopped: asyncio.Event) -> None:
        """Feed until it is told to stop; go on by itself when broker or database are back."""
        asking = None if self._ask is None else asyncio.create_task(self._asking(self._ask))
        try:
            await self._feed(stopped)
        finally:
            if asking is not None:
                await end_tasks(asking)

    async def ends(self) -> dict[TopicPartition, int]:
        """The offset behind all messages that are committed, of each partition. Raises KafkaError.

        What a transaction leaves behind its last message is none, and never in the inbox.
        """
        consumer, positions = self._consumer, self.positions
        if consumer is None:
            raise KafkaError("it is not connected")
        found: dict[TopicPartition, int] = await consumer.end_offsets(list(positions))
        read = {at: await consumer.position(at) for at in positions}
        if not self._receiving:
            found |= {at: positions[at] for at, end in found.items() if read[at] >= end}
        return found

    async def _asking(self, every: float) -> None:
        while True:
            producer = AIOKafkaProducer(**self._settings)
            try:
                await producer.start()
                while True:
                    await asyncio.sleep(every)
                    for gap in await asyncio.to_thread(self._missing, every):
                        await producer.send_and_wait(*_request(gap))
            except (KafkaError, SQLAlchemyError, OSError) as error:
                logger.warning("inbox %s: cannot ask for what is missing: %r", self._name, error)
                await asyncio.sleep(every)
            finally:
                with suppress(Exception):
                    await wait_for_stop(producer.stop())

    def _missing(self, every: float) -> list[Gap]:
        """What to ask for now: some of what is missing, and the next time what comes behind it."""
        found: list[Gap] = []
        while len(found) < GAPS:
            page = gaps(self._inbox, GAPS, self._turn)
            self._turn += len(page)
            found += self._old(page, every)
            if len(page) < GAPS:
                # All were looked at; those that did not show are closed.
                self._seen, self._shown, self._turn = self._shown, {}, 0
                break
        return found

    def _old(self, found: Sequence[Gap], every: float) -> list[Gap]:
        """Gaps that are open for so long, by the clock of this process: no other one is trusted."""
        now = time.monotonic()
        old: list[Gap] = []
        for gap in found:
            if gap.topic in self._topics:
                at = gap.topic, gap.stream, gap.first
                since = self._shown[at] = self._seen.get(at, now)
                if now - since >= every:
                    old.append(gap)
        return old

    @property
    def _name(self) -> str:
        return self._inbox.name

    async def _feed(self, stopped: asyncio.Event) -> None:
        while not stopped.is_set():
            try:
                await self._run(stopped)
            except Fenced as error:
                logger.warning("%s", error)
            except (KafkaError, SQLAlchemyError, OSError) as error:
                self.failing = reason = said(error)
                if self._told(reason):
                    logger.warning("inbox %s: %s; trying again", self._name, reason)
            except Exception as error:
                self.failing = f"what was read cannot be received: {error!r}"
                logger.exception("inbox %s: what was read cannot be received", self._name)
            if not stopped.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await stopped.wait()

    async def _run(self, stopped: asyncio.Event) -> None:
        consumer = AIOKafkaConsumer(
            **{
                "group_id": None,
                "enable_auto_commit": False,
                "auto_offset_reset": "earliest",
                "isolation_level": "read_committed",
                "fetch_max_wait_ms": 50,
                "metadata_max_age_ms": LOOK,
                "key_deserializer": raw,  # tells records apart whose headers cannot be read
                **self._settings,
            }
        )
        try:
            await consumer.start()
            positions = self.positions = await self._assign(consumer)
            self._receiving = False
            self._consumer = consumer
            self.ready.set()
            numbers = Counter(at.topic for at in positions)
            while not stopped.is_set():
                for topic, number in numbers.items():
                    now = len(consumer.partitions_for_topic(topic) or ())
                    if now not in (0, number):  # none: that is not known at the moment
                        logger.info("inbox %s: %s has %d partitions now", self._name, topic, now)
                        return
                found = await consumer.getmany(timeout_ms=200, max_records=RECORDS)
                if any(found.values()):
                    self._receiving = True
                    await self._receive(found, positions)
                    self._receiving = False
                self.failing = None
        finally:
            self._consumer = None
            with suppress(Exception):
                await wait_for_stop(consumer.stop())

    async def _assign(self, consumer: Any) -> dict[TopicPartition, int]:
        partitions = await self._partitions()
        consumer.assign(partitions)
        offsets = await asyncio.to_thread(self._inbox.offsets)
        beginnings = await consumer.beginning_offsets(partitions)
        positions: dict[TopicPartition, int] = {}
        known = {topic for topic, _ in offsets}
        new: dict[Partition, ReadRange] = {}
        for at in partitions:
            place, begin = (at.topic, at.partition), beginnings[at]
            # One that was added to a topic is to be read from its first message on.
            stored = offsets.get(place, 0 if at.topic in known else begin)
            if stored < begin:
                logger.error(
                    "inbox %s: %s/%d is at offset %d, but the topic begins at %d: retention has "
                    "deleted what comes between; what is missing shows as gaps",
                    self._inbox.name, at.topic, at.partition, stored, begin,
                )  # fmt: skip
            if place not in offsets:
                new[place] = ReadRange(begin, begin)
            positions[at] = offsets.get(place, begin)
            consumer.seek(at, max(positions[at], begin))
        if new:
            # So that one that is added later is known by having none.
            await asyncio.to_thread(self._inbox.receive, [], read=new)
        return positions

    async def _partitions(self) -> list[TopicPartition]:
        """Those of the topics, and of the topics of void messages that there are."""
        admin = AIOKafkaAdminClient(**self._settings)
        await admin.start()
        try:
            voids = [f"{topic}{VOID}" for topic in self._topics]
            known = await partitions_there(admin, [*self._topics, *voids])
            for missing in self._topics.keys() - known.keys():
                raise KafkaError(f"topic {missing!r} does not exist; make it")
        finally:
            await wait_for_stop(admin.close())
        return [
            TopicPartition(topic, number)
            for topic, partitions in known.items()
            for number in range(partitions)
        ]

    async def _receive(
        self, found: Mapping[TopicPartition, Sequence[Any]], positions: dict[TopicPartition, int]
    ) -> None:
        messages: list[Message] = []
        malformed: Malformations = []
        read: dict[Partition, ReadRange] = {}
        for at, records in found.items():
            if records:
                end = records[-1].offset + 1
                read[at.topic, at.partition] = ReadRange(positions[at], end)
                interpret = self._topics.get(at.topic) or voids(at.topic.removesuffix(VOID))
                interpreted(interpret, records, messages, malformed)
        began = time.monotonic()
        result = await asyncio.to_thread(
            self._inbox.receive, messages, read=read, malformed=malformed
        )
        self.received(result, time.monotonic() - began)
        for (topic, partition), where in read.items():
            positions[TopicPartition(topic, partition)] = where.end


def _request(gap: Gap) -> tuple[str, bytes, bytes]:
    body = {"stream": gap.stream, "first": gap.first, "last": gap.last}
    return f"{gap.topic}.resend", orjson.dumps(body), gap.stream.encode()
