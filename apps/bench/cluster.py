"""The broker that everything is measured on, seen from outside of what is measured."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import repeat
from uuid import uuid4

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from sequitur.demo.kafka import Kafka

_TIMEOUT = 30.0
_HELD = 15 * 60 * 1000
"""Milliseconds for which messages may be held back: what a broker allows by default."""
_TAIL = 1000
"""Offsets at the end of a partition in which its last record is looked for first."""

# What is said of a topic that was just made.
_NOT_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
)

NOW = repeat(0)
Sent = tuple[bytes | None, bytes]
"""Key and value."""
Partition = tuple[str, int]
"""Topic and number."""


class Cluster(Kafka):
    """A broker: topics are made, filled, watched and deleted here."""

    def __init__(self, broker: str) -> None:
        super().__init__(broker)
        self._watcher = Consumer(
            {
                "bootstrap.servers": broker,
                "log_level": 0,
                "group.id": "sequitur-bench-watch",
                "isolation.level": "read_committed",  # whose end the watermarks then are
            }
        )

    def create(self, topics: Mapping[str, int]) -> None:
        """Create topics, name → partitions, and wait until they can be used."""
        if topics:
            super().create(topics)
        deadline = time.monotonic() + _TIMEOUT
        for topic, count in topics.items():
            while not self._has_leaders(topic, count):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"topic {topic} is not there after {_TIMEOUT:.0f} s")
                time.sleep(0.05)

    def stamp_on_append(self, topic: str) -> None:
        """Let a topic's records have the time of the broker, when it appends them."""
        entry = ConfigEntry(
            "message.timestamp.type",
            "LogAppendTime",
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(_TIMEOUT)

    def _has_leaders(self, topic: str, count: int) -> bool:
        found = self._watcher.list_topics(topic, timeout=_TIMEOUT).topics[topic].partitions
        return len([p for p in found.values() if p.leader >= 0]) == count

    def fill(self, topic: str, messages: Iterable[Sent], times: Iterable[int] = NOW) -> int:
        """Write messages to a topic, each key to its partition; return how many they were.

        times: of the messages, ms since 1970; 0 for now.
        """
        return _write(self.producer(), topic, messages, times)

    @contextmanager
    def held_back(
        self, topic: str, messages: Iterable[Sent], times: Iterable[int] = NOW
    ) -> Iterator[None]:
        """Write messages that readers of committed records get, all at once, when this is left.

        They are one transaction, which is committed then; so workers can be ready beforehand.
        """
        producer = self.producer(
            {"transactional.id": f"bench-{uuid4()}", "transaction.timeout.ms": _HELD}
        )
        producer.init_transactions(_TIMEOUT)
        producer.begin_transaction()
        try:
            _write(producer, topic, messages, times)
            yield
        except BaseException:
            producer.abort_transaction(_TIMEOUT)
            raise
        producer.commit_transaction(_TIMEOUT)

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Partition → the offset up to which readers of committed records can read.

        The markers of transactions have offsets too.
        """
        return {partition: self._end(*partition) for partition in partitions}

    def _end(self, topic: str, number: int) -> int:
        deadline = time.monotonic() + _TIMEOUT
        while True:
            try:
                offsets = self._watcher.get_watermark_offsets(
                    TopicPartition(topic, number), timeout=_TIMEOUT
                )
            except KafkaException as error:
                if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                continue
            return offsets[1]

    def complete(self, partitions: Iterable[Partition]) -> list[int]:
        """The offset behind the last committed record of each partition; 0 where there is none.

        Raises KafkaException and TimeoutError.
        """
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker,
                "group.id": "sequitur-bench-complete",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 5,
            }
        )
        try:
            return [self._behind_last(consumer, *partition) for partition in partitions]
        finally:
            consumer.close()

    def _behind_last(self, consumer: Consumer, topic: str, number: int) -> int:
        found = 0
        for first in (max(0, self._end(topic, number) - _TAIL), 0):
            consumer.assign([TopicPartition(topic, number, first)])
            while (message := consumer.poll(_TIMEOUT)) is not None:
                if (error := message.error()) is None:
                    found = (message.offset() or 0) + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    break
                else:
                    raise KafkaException(error)
            else:
                raise TimeoutError(f"topic {topic}: nothing to read for {_TIMEOUT:.0f} s")
            if found:
                break
        return found

    def members(self, group: str) -> int:
        """How many members the group has that know their partitions; 0 while it is balanced."""
        found = self._admin.describe_consumer_groups([group], request_timeout=_TIMEOUT)[group]
        try:
            description = found.result()
        except KafkaException:
            return 0
        stable = description.state == ConsumerGroupState.STABLE
        return len(description.members) if stable else 0

    def lag(self, group: str, topic: str, partitions: int) -> int | None:
        """Messages of a topic that the group has not committed; None while that is not known."""
        try:
            done = self.committed(group, [topic])
        except KafkaException:
            return None
        if len(done) < partitions:
            return None
        return sum(end - done[at] for at, end in self.ends(done).items())

    def named(self, part: str) -> list[str]:
        """The topics with `part` in their names."""
        return [name for name in self._admin.list_topics(timeout=_TIMEOUT).topics if part in name]

    def delete(self, part: str) -> None:
        """Delete all topics with `part` in their names."""
        if names := self.named(part):
            for future in self._admin.delete_topics(names, request_timeout=_TIMEOUT).values():
                future.result()

    def producer(self, more: dict[str, str | int] | None = None) -> Producer:
        """One that partitions as Java's and aiokafka's do. more: settings, besides or instead."""
        return Producer(
            {
                "bootstrap.servers": self.broker,
                "log_level": 0,
                "linger.ms": 20,
                "batch.size": 1 << 20,
                "queue.buffering.max.messages": 1_000_000,
                "partitioner": "murmur2_random",  # as Java's and aiokafka's clients
                **(more or {}),
            }
        )


def _write(
    producer: Producer, topic: str, messages: Iterable[Sent], times: Iterable[int] = NOW
) -> int:
    count = 0
    for count, ((key, value), time_ms) in enumerate(zip(messages, times, strict=False), 1):
        while True:
            try:
                producer.produce(topic, value, key, timestamp=time_ms)
                break
            except BufferError:
                producer.poll(0.1)
        if not count % 10_000:
            producer.poll(0)
    left = producer.flush(_TIMEOUT)
    if left:
        raise TimeoutError(f"topic {topic}: the broker did not take {left:,} messages")
    return count
