"""Messages of handlers that Kafka refuses: found one by one, so that each fails its own event.

A broker refuses a batch for one record in it, and a unit for one batch. What a handler sends is the
user's: too large for the topic that they made, without the key that it asks for, or to a topic
that the worker must not write to. The event that sends it fails like one whose handler raises; its
partition starts again from what is committed, and goes on.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    CorruptRecordException,
    InvalidTimestampError,
    InvalidTopicError,
    KafkaError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownError,
    UnsupportedForMessageFormatError,
)
from mode import get_logger

from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit, SentBy
from topology.faust.kafka.broker.shapes import configs
from topology.faust.kafka.clients import CannotMake, connection
from topology.faust.worker.writing.partitioning import Partitions
from topology.faust.worker.writing.writer import BATCH_BYTES, REQUEST_BYTES
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

logger = get_logger(__name__)

MOST = 100
"""Refused messages of a topic that are looked for at a time; others are found when these have
failed."""
ENDING = 10.0
"""Seconds in which a transaction that is never committed is to end."""
REMEMBERED = 10_000
"""Events of a view that are to fail, at most: where one does not come again, it is not kept."""

REFUSALS: tuple[type[KafkaError], ...] = (
    CannotMake,
    ClusterAuthorizationFailedError,
    CorruptRecordException,
    InvalidTimestampError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnsupportedForMessageFormatError,
    # A record that breaks a rule of its topic, such as one without a key where logs are compacted,
    # has a code that aiokafka does not know.
    UnknownError,
)
"""What a broker says of a record or a topic, rather than of itself."""


class Refusals:
    """Finds refused messages of a partition's units, by transactions that are never committed.

    app: Faust's. source: the partition. views: of the topology.
    """

    def __init__(
        self,
        app: Any,
        group: str,
        source: TopicPartition,
        partitions: Partitions,
        views: Mapping[str, View],
    ) -> None:
        self._app = app
        self._source = source
        self._config = {
            **connection(app),
            "transactional_id": f"{group}-{source.topic}-{source.partition}/refused",
            # Each record is a batch of its own, and is refused by itself.
            "max_batch_size": 1,
            "max_request_size": REQUEST_BYTES,
        }
        self._partitions = partitions
        self._views = views

    async def note(self, unit: CommitUnit, error: KafkaError) -> None:
        """Let the events fail whose messages are refused, when they are handled again; and pack
        records of topics that take small batches only as these take them."""
        for view in self._views.values():
            view.emitting.uncommitted()
        if isinstance(error, MessageSizeTooLargeError):
            await self._learn({**unit.colocated, **unit.keyed}, {each[0] for each in unit.sent})
        there = {
            id(out) for each in (unit.colocated, unit.keyed) for o in each.values() for out in o
        }
        every: list[tuple[SentBy, KafkaError]] = []
        topics: defaultdict[str, list[SentBy]] = defaultdict(list)
        for each in unit.sent:
            if id(each[1]) in there:
                topics[each[0]].append(each)
        for pending in topics.values():
            found = 0
            while pending and found < MOST:
                refused, pending = await self._refused(pending)
                if not refused:
                    break
                found += len(refused)
                every += refused
        for sent, why in every:
            self._note(sent, why)
        if not every and not isinstance(error, MessageSizeTooLargeError):
            logger.warning(
                "%s: Kafka refuses a batch (%r), and no handler's message by itself; it was to go "
                "to %s",
                self._source, error, ", ".join(sorted({*unit.colocated, *unit.keyed})),
            )  # fmt: skip

    def committed(self) -> None:
        """A unit is committed: what failed in it may be tried again."""
        for view in self._views.values():
            if view.emitting.failing:
                view.emitting.failing.clear()

    async def _learn(self, topics: Iterable[str], others: Collection[str]) -> None:
        """Note which topics take smaller batches than the worker makes. others: those of handlers,
        which get a batch a record where their settings may not be read."""
        names = list(topics)
        known = await configs(self._app, names)
        for topic in names:
            unknown = 1 if topic in others else BATCH_BYTES
            limit = int(known.get(topic, {}).get("max.message.bytes", unknown))
            if limit < BATCH_BYTES:
                self._partitions.limits[topic] = limit

    def _note(self, sent: SentBy, error: KafkaError) -> None:
        topic, _, view, stream, sequence = sent
        why = f"Emit(topic={topic!r}): Kafka refuses it: {told(error)}"
        refused = self._views[view].emitting.refused
        if len(refused) >= REMEMBERED:
            refused.clear()
        refused[stream, sequence] = why
        logger.warning(
            "view %s: stream %s sequence %d fails: %s",
            view, printable(stream), sequence, printable(why, 1000),
        )  # fmt: skip

    async def _refused(
        self, sent: list[SentBy]
    ) -> tuple[list[tuple[SentBy, KafkaError]], list[SentBy]]:
        """Messages to one topic: those that Kafka refuses, and those of which it did not say, since
        one before them was refused."""
        refused: list[tuple[SentBy, KafkaError]] = []
        producer = AIOKafkaProducer(**self._config)
        # It ends what the one before has left open; nothing is ever committed.
        await producer.start()
        try:
            await producer.begin_transaction()
            answers = [await self._send(producer, each) for each in sent]
        finally:
            # Left open, it would hide what is committed behind it until the broker gives it up.
            with suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(ENDING):
                    await producer.abort_transaction()
            await wait_for_stop(producer.stop())
        unsaid: list[SentBy] = []
        for each, error in zip(sent, answers, strict=True):
            if isinstance(error, REFUSALS):
                refused.append((each, error))
            elif error is not None:
                unsaid.append(each)
        return refused, unsaid

    async def _send(self, producer: AIOKafkaProducer, sent: SentBy) -> Exception | None:
        topic, (key, value, timestamp, headers), *_ = sent
        try:
            inputs = await self._partitions.count(self._source.topic, 1)
            number = self._partitions.of(key, await self._partitions.count(topic, inputs))
            # As the unit's own, which may have neither key nor value.
            batch = producer.create_batch()
            batch.append(key=key, value=value, timestamp=timestamp, headers=headers)
            batch.close()
            await (await producer.send_batch(batch, topic, partition=number))
        except KafkaError as error:
            found: Exception = error
            return found
        return None


def told(error: KafkaError) -> str:
    """A refusal in words, with what helps."""
    if isinstance(error, MessageSizeTooLargeError | RecordListTooLargeError):
        return "the message is larger than the topic's max.message.bytes; raise that, or send less"
    if isinstance(error, TopicAuthorizationFailedError | ClusterAuthorizationFailedError):
        return "the worker may not write there; grant it WRITE and, for a new topic, CREATE"
    if isinstance(error, UnknownError):
        return (
            "the record breaks a rule of the topic; where its cleanup.policy is compact, every "
            "message needs a key"
        )
    return str(error) or type(error).__name__
