"""Kafka as a transport. What is published and START are in one transaction, so it comes once."""

import asyncio
import logging
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    InvalidTimestampError,
    InvalidTopicError,
    KafkaError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    ProducerFenced,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka.producer import sender

from stores.kafka_records import ReplacedName
from stores.kafka_topics import make_topics
from stores.kafka_transactions import InvalidRecordError
from stores.segments.day_of import DAY
from stores.segments.errors import DestinationDown, PublishRefused, SegmentError, StaleOwner
from stores.segments.message import (
    Headers,
    InboundMessage,
    OutboundBatch,
    OutboundMessage,
    Pair,
    Place,
)
from stores.topic_id import topic_id
from topology.model.ending import wait_for_stop

# A transaction close behind another one waits for that one's markers: not aiokafka's 20 ms.
sender.BACKOFF_OVERRIDE = 0.003

logger = logging.getLogger(__name__)

ID = "sequitur-id"
"""The header that has a message's id."""
STARTS = "sequitur-starts"
"""The topic of the places that are published, one record per pair."""
_REFUSED = (
    InvalidRecordError,
    InvalidTimestampError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
)
"""What Kafka says of a message or its topic, rather than of itself."""
_WAIT = 30.0
_BATCH = 1 << 19
"""Bytes of a request's batch; of a topic that takes less, one message is one."""
_REQUEST = 128 << 20
_TELL = 1.0
"""Seconds between two commits of the group's offsets, which take longer than a small unit."""
_RECOGNISE = 5.0
"""Seconds after which a topic's id is asked for again."""


class KafkaInbound:
    """See `Inbound`: all partitions of a topic. SQL says where to go on; the group is for monitors.

    Args:
        topic: which.
        kafka: arguments of aiokafka's clients, `bootstrap_servers` among them.
        group: under which positions are committed.
        remedy: what to do about another topic of that name.
        recognise_each: whether the topic's id is asked for after each batch, so that nothing of
            another topic is taken for this one's; else after 5 s, for small batches.

    Attributes:
        lost: partition → the first offset that was deleted before it was consumed, and the one
            behind the last, as `start` found it; also where nothing was consumed before.
    """

    def __init__(
        self,
        topic: str,
        kafka: Mapping[str, Any],
        group: str = "sequitur",
        *,
        remedy: str = "use another router's name",
        recognise_each: bool = False,
    ) -> None:
        self.topic, self._kafka, self._group = topic, dict(kafka), group
        self._remedy, self._recognise_each = remedy, recognise_each
        self.lost: dict[int, tuple[int, int]] = {}
        self._consumer: AIOKafkaConsumer | None = None
        self._partitions: set[int] = set()
        self._recognised: tuple[float, str | None] | None = None
        self._behind: dict[TopicPartition, int] = {}
        self._told: float | None = None

    async def start(self, positions: Mapping[int, int]) -> None:
        self._recognised, self._told, self._behind = None, None, {}
        consumer = self._consumer = AIOKafkaConsumer(
            **self._kafka,
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
        )
        try:
            await consumer.start()
            await consumer._client._wait_on_metadata(self.topic)
            self._partitions = set(consumer.partitions_for_topic(self.topic) or ())
            topics = [TopicPartition(self.topic, each) for each in sorted(self._partitions)]
            consumer.assign(topics)
            begin = await consumer.beginning_offsets(topics)
            ends = await consumer.end_offsets(topics)
        except KafkaError as error:
            raise ConnectionError(f"topic {self.topic}: {error!r}") from error
        self.lost = {}
        for each in topics:
            at = positions.get(each.partition, begin[each])
            if at > ends[each]:
                raise SegmentError(
                    f"{self.topic}/{each.partition} ends at {ends[each]}, and {at} messages were "
                    f"consumed: it is another topic of that name; {self._remedy}"
                )
            if (known := positions.get(each.partition, 0)) < begin[each]:
                self.lost[each.partition] = known, begin[each]
            if at < begin[each]:
                lost = begin[each] - at
                logger.error(
                    "%s/%d: %d messages were deleted before they were consumed",
                    *(self.topic, each.partition, lost),
                )
            consumer.seek(each, max(at, begin[each]))

    async def poll(self, most: int, seconds: float) -> Sequence[InboundMessage]:
        assert self._consumer is not None
        await self._tell_group()
        if self._consumer.partitions_for_topic(self.topic) != self._partitions:
            raise ConnectionError(f"topic {self.topic} has other partitions now")
        try:
            found = await self._consumer.getmany(
                timeout_ms=max(1, round(seconds * 1000)), max_records=most
            )
        except KafkaError as error:
            raise ConnectionError(f"topic {self.topic}: {error!r}") from error
        if found and self._recognise_each:
            self._recognised = None
        return [self._message(record) for records in found.values() for record in records]

    async def acknowledge(self, positions: Mapping[int, int]) -> None:
        self._behind |= {TopicPartition(self.topic, each): at for each, at in positions.items()}
        await self._tell_group()

    async def _tell_group(self) -> None:
        now, consumer = time.monotonic(), self._consumer
        if not self._behind or (self._told is not None and now - self._told < _TELL):
            return
        assert consumer is not None
        behind, self._behind, self._told = self._behind, {}, now
        try:
            await asyncio.wait_for(consumer.commit(behind), _WAIT)
        except (KafkaError, TimeoutError) as error:
            raise ConnectionError(f"topic {self.topic}: {error!r}") from error

    async def recognise(self, known: str | None) -> str | None:
        """See `Recognising`: a topic that was deleted and made again has another id."""
        assert self._consumer is not None
        now = time.monotonic()
        if self._recognised is None or now - self._recognised[0] > _RECOGNISE:
            try:
                found = await topic_id(self._consumer._client, self.topic)
            except KafkaError as error:
                raise ConnectionError(f"topic {self.topic}: {error!r}") from error
            self._recognised = now, found
        id = self._recognised[1] or known
        if known is not None and id != known:
            raise SegmentError(
                f"topic {self.topic} was deleted and made again: its id is {id}, and what was "
                f"consumed is of {known}; {self._remedy}"
            )
        return id

    async def end_day(self, day: str) -> None:
        """See `Endable`: into each partition."""
        producer = AIOKafkaProducer(**self._kafka)
        try:
            await producer.start()
            numbers = await asyncio.wait_for(_partitions_of(producer.client, self.topic), _WAIT)
            for number in sorted(numbers):
                await producer.send_and_wait(
                    self.topic, b"", partition=number, headers=[(DAY, day.encode())]
                )
        except (KafkaError, TypeError, TimeoutError) as error:
            raise ConnectionError(f"topic {self.topic}: {error!r}") from error
        finally:
            await wait_for_stop(producer.stop())

    async def stop(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await wait_for_stop(consumer.stop())

    def partition_numbers(self) -> Collection[int]:
        """See `Holding`."""
        return self._partitions

    async def records_behind(self) -> dict[int, int]:
        """Partition → the records that are there and not polled, as far as it has heard of them."""
        found: dict[int, int] = {}
        if (consumer := self._consumer) is None:
            return found
        for place in consumer.assignment():
            end = consumer.highwater(place) or 0
            found[place.partition] = max(0, end - await consumer.position(place))
        return found

    def hold(self, partition: int, position: int) -> None:
        """See `Holding`."""
        assert self._consumer is not None
        place = TopicPartition(self.topic, partition)
        self._consumer.pause(place)
        self._consumer.seek(place, position)

    def release(self, partition: int) -> None:
        """See `Holding`."""
        assert self._consumer is not None
        self._consumer.resume(TopicPartition(self.topic, partition))

    def _message(self, record: Any) -> InboundMessage:
        headers: Headers = ()
        damage, offset = "", record.offset
        if record.headers:
            headers = tuple((name, value or b"") for name, value in record.headers)
            if any(isinstance(name, ReplacedName) for name, _ in headers):
                damage = "a header's name is not UTF-8"
        return InboundMessage(
            *(self.topic, record.partition, offset, offset + 1, record.value, record.key, headers),
            damage=damage,
            time=record.timestamp,
        )


async def _partitions_of(client: Any, topic: str) -> Collection[int]:
    """The partitions of a topic that may be about to be made. Each look for it logs an error.

    Raises:
        UnknownTopicOrPartitionError: Kafka has answered that it is not there.
        DestinationDown: Kafka has not answered.
    """
    try:
        # Else it is forgotten when another one is heard of for the first time.
        answered = await client.add_topic(topic)
        for pause in _PAUSES:
            if (found := client.cluster.partitions_for_topic(topic)) is not None:
                return set(found)
            if topic in client.cluster.unauthorized_topics:
                raise TopicAuthorizationFailedError(topic)
            await asyncio.sleep(pause)
            answered = await client.force_metadata_update()
        if (found := client.cluster.partitions_for_topic(topic)) is not None:
            return set(found)
    finally:
        if client.cluster.partitions_for_topic(topic) is None:
            client._topics.discard(topic)  # else whatever is asked of Kafka asks for it, too
    if not answered:
        raise DestinationDown("Kafka is not reachable")
    raise UnknownTopicOrPartitionError(topic)


_PAUSES = 0.05, 0.25, 0.7, 1.0
"""Seconds between two looks for a topic."""
_SEGMENT = 16 << 20


class KafkaOutbound:
    """See `Outbound`: destinations are topics, which exist.

    Args:
        kafka: arguments of aiokafka's clients, `bootstrap_servers` among them.
        router: whose pairs; a part of the transactional id.
        starts: the topic of the places that are published; made if it is not there.
    """

    keeps_start = True

    def __init__(
        self, kafka: Mapping[str, Any], router: str = "router", *, starts: str = STARTS
    ) -> None:
        self._kafka, self._router, self._starts = dict(kafka), router, starts
        self._producer: AIOKafkaProducer | None = None
        self._known: dict[str, list[int]] = {}
        self._batch = _BATCH

    async def start(self, pair: Pair) -> Place | None:
        self._known.clear()
        try:
            producer = await self._produce(pair)
            # A publisher that starts reads all of it: what compaction leaves, and an open segment.
            configs = {"cleanup.policy": "compact", "segment.bytes": str(_SEGMENT)}
            await make_topics(self._kafka, {self._starts: 1}, configs)
            await producer.client.add_topic(self._starts)
            return await asyncio.wait_for(self._last(self._key(pair).encode()), _WAIT)
        except (KafkaError, TimeoutError) as error:
            raise DestinationDown(f"Kafka: {error!r}") from error

    async def _produce(self, pair: Pair) -> AIOKafkaProducer:
        """Start a producer, which shuts out the one before, and ends that one's transaction."""
        producer = self._producer = AIOKafkaProducer(
            **{
                "retry_backoff_ms": 10,
                "max_request_size": _REQUEST,  # what a topic takes is its own matter
                **self._kafka,
                "max_batch_size": self._batch,
            },
            transactional_id=self._key(pair),
        )
        await producer.start()
        return producer

    async def publish(self, batch: OutboundBatch) -> None:
        producer = self._producer
        assert producer is not None
        try:
            await self._learn(batch.messages)
            await producer.begin_transaction()
            refused = await self._send(producer, batch)
            if refused is None:
                await producer.commit_transaction()
                self._batch = _BATCH
                return
            await producer.abort_transaction()
            # It has counted the batch that was refused, and the broker has not.
            await wait_for_stop(producer.stop())
            await self._produce(batch.pair)
        except ProducerFenced as error:
            raise StaleOwner(f"{batch.pair}: another one publishes to Kafka; stop") from error
        except KafkaError as error:
            raise DestinationDown(f"Kafka: {error!r}") from error
        raise refused

    async def stop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await wait_for_stop(producer.stop())

    async def partition_numbers(self, destination: str) -> Sequence[int]:
        """See `Partitioned`; Kafka is asked each time, since a topic may have gained some."""
        if destination in self._known:
            assert self._producer is not None
            asking = self._producer.client.force_metadata_update()
            try:
                answered = await asyncio.wait_for(asking, _WAIT)
            except TimeoutError as error:
                raise DestinationDown("Kafka does not answer") from error
            if not answered:
                raise DestinationDown("Kafka is not reachable")
            del self._known[destination]
        with suppress(PublishRefused):
            await self._learn([OutboundMessage("", destination, None)])
        return self._known.get(destination, ())

    async def _learn(self, messages: Sequence[OutboundMessage]) -> None:
        """Ask for the partitions of destinations that are new; which may not be there at all."""
        assert self._producer is not None
        client = self._producer.client
        for index, message in enumerate(messages):
            name = message.destination
            if name not in self._known:
                try:
                    partitions = await asyncio.wait_for(_partitions_of(client, name), _WAIT)
                except TimeoutError as error:
                    raise DestinationDown("Kafka does not answer") from error
                except (UnknownTopicOrPartitionError, InvalidTopicError, TypeError) as error:
                    raise PublishRefused(index, f"there is no topic {name}") from error
                self._known[name] = sorted(partitions)

    async def _send(
        self, producer: AIOKafkaProducer, batch: OutboundBatch
    ) -> PublishRefused | None:
        sending = []
        for index, message in enumerate(batch.messages):
            if message.value is None and message.key is None:
                return PublishRefused(index, "it has neither a key nor a value")
            # Its own id, not that of what it came of.
            headers = [header for header in message.headers if header[0] != ID]
            headers.append((ID, message.id.encode()))
            partition = message.partition
            if partition is None and message.key is None:
                partition = self._partition_of(message)
            try:
                sent = await producer.send(
                    message.destination, message.value, message.key, partition, headers=headers
                )
            except MessageSizeTooLargeError as error:
                return PublishRefused(index, str(error))
            sending.append(sent)
        place = orjson.dumps([*batch.behind])
        sending.append(await producer.send(self._starts, place, self._key(batch.pair).encode(), 0))
        for index, done in enumerate(await asyncio.gather(*sending, return_exceptions=True)):
            if isinstance(done, _REFUSED) and index < len(batch.messages):
                to = batch.messages[index].destination
                alone = sum(each.destination == to for each in batch.messages) == 1
                if self._batch > 1 and not alone:
                    self._batch = 1  # which of them it is shows when each is sent alone
                    raise DestinationDown(f"Kafka: {to} refuses a batch: {done!r}") from done
                return PublishRefused(index, str(done) or repr(done))
            if isinstance(done, BaseException):
                raise done
        return None

    def _partition_of(self, message: OutboundMessage) -> int:
        """Without a key: what came of one inbound partition, or stream, goes to one partition."""
        source, partitions = message.id.rsplit("/", 2)[0], self._known[message.destination]
        return partitions[zlib.crc32(source.encode()) % len(partitions)]

    def _key(self, pair: Pair) -> str:
        return f"{self._router}/{pair.topic}/{pair.transport}"

    async def _last(self, key: bytes) -> Place | None:
        """The last START that was committed.

        Another pair's open transaction hides what is behind it, so that the end that counts is the
        one that does not heed transactions.
        """
        starts = TopicPartition(self._starts, 0)
        raw = AIOKafkaConsumer(**self._kafka, auto_offset_reset="earliest")
        reader = AIOKafkaConsumer(
            **self._kafka, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        found: bytes | None = None
        try:
            await raw.start()
            end = (await raw.end_offsets([starts]))[starts]
            await reader.start()
            reader.assign([starts])
            await reader.seek_to_beginning(starts)
            while await reader.position(starts) < end:
                for records in (await reader.getmany(timeout_ms=100)).values():
                    for record in records:
                        found = record.value if record.key == key else found
        finally:
            await wait_for_stop(raw.stop())
            await wait_for_stop(reader.stop())
        return None if found is None else Place(*orjson.loads(found))
