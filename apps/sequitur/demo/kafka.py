"""What the demo asks of Kafka: make topics, and see whether everything has been read."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
)
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_TIMEOUT = 10.0

Offsets = Mapping[tuple[str, int], int]
"""(topic, partition) → the offset of the next record to read."""


class Kafka:
    """One broker address, seen from outside the engine."""

    def __init__(self, broker: str) -> None:
        self.broker = broker
        self._admin = AdminClient({"bootstrap.servers": broker, "log_level": 0})

    def create(self, topics: Mapping[str, int]) -> None:
        """Create topics, name → partitions; those that exist are left alone."""
        new = [NewTopic(name, num_partitions=count) for name, count in topics.items()]
        for future in self._admin.create_topics(new, request_timeout=_TIMEOUT).values():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def partitions(self, topics: Iterable[str]) -> list[tuple[str, int]]:
        """The partitions of those topics that exist."""
        known = self._admin.list_topics(timeout=_TIMEOUT).topics
        return [(t, number) for t in topics if t in known for number in known[t].partitions]

    def group_ready(self, group: str) -> bool:
        """Whether the group has members and every one knows its partitions."""
        found = self._admin.describe_consumer_groups([group], request_timeout=_TIMEOUT)[group]
        with suppress(KafkaException):
            description = found.result()
            return bool(description.state == ConsumerGroupState.STABLE and description.members)
        return False

    def committed(self, group: str, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """What the group has committed in each partition of the topics; 0 where nothing."""
        wanted = self.partitions(topics)
        request = ConsumerGroupTopicPartitions(group, [Position(t, p) for t, p in wanted])
        future = self._admin.list_consumer_group_offsets([request], request_timeout=_TIMEOUT)[group]
        found = {(p.topic, p.partition): p.offset for p in future.result().topic_partitions}
        return {partition: max(0, found.get(partition, 0)) for partition in wanted}

    def all_read(self, offsets: Offsets) -> bool:
        """Whether no committed record is at or behind these offsets.

        Offsets alone do not tell: the markers of transactions take some too. So this reads on.
        """
        with _reader(self.broker) as consumer:
            consumer.assign([Position(t, p, offset) for (t, p), offset in offsets.items()])
            open_partitions, deadline = set(offsets), time.monotonic() + _TIMEOUT
            while open_partitions and time.monotonic() < deadline:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    return False
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                open_partitions.discard((message.topic(), message.partition()))
            return not open_partitions

    def wait_for_group(self, group: str, seconds: float, check: Callable[[], None]) -> None:
        """Wait until the group is ready; `check` may raise. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while not self.group_ready(group):
            check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"consumer group {group!r} is not ready after {seconds:g} s")
            time.sleep(0.25)


@contextmanager
def _reader(broker: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "log_level": 0,
            "group.id": "sequitur-demo-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()
