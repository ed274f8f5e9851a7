"""The topics of recoveries in Kafka, and how far topics are there."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import UnknownTopicOrPartitionError, for_code

from stores.kafka_topics import make_topics
from stores.replay.errors import ReplayError
from stores.replay.recoveries import Recovery
from stores.replay.retention import Hole
from topology.model.ending import wait_for_stop


class RecoveryTopics:
    """What a recovery needs of Kafka.

    Args:
        kafka: arguments of aiokafka's clients, `bootstrap_servers` among them.
    """

    def __init__(self, kafka: Mapping[str, Any]) -> None:
        self._kafka = dict(kafka)

    async def ends(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        """Topic → partition → its end.

        Args:
            topics: which.

        Raises:
            ReplayError: there is no such topic.
            KafkaError: Kafka is away.
        """
        consumer = AIOKafkaConsumer(**self._kafka, isolation_level="read_committed")
        found: dict[str, dict[int, int]] = {}
        try:
            await consumer.start()
            there = await consumer.topics()
            for topic in topics:
                if topic not in there:
                    raise ReplayError(f"there is no topic {topic!r}: see that its name is right")
                await consumer._client.add_topic(topic)
                numbers = sorted(await consumer._client._wait_on_metadata(topic))
                ends = await consumer.end_offsets([TopicPartition(topic, n) for n in numbers])
                found[topic] = {place.partition: at for place, at in ends.items()}
        finally:
            await wait_for_stop(consumer.stop())
        return found

    async def uncaptured(self, waits: Sequence[tuple[str, int, int, int]]) -> list[Hole] | None:
        """What Kafka deleted before it was captured; None: there are messages yet to be captured.

        Offsets without a message may also be of what was not committed.

        Args:
            waits: topic, partition, the first offset, the one behind the last.

        Raises:
            KafkaError: Kafka is away.
        """
        wanted = {TopicPartition(topic, number): (low, high) for topic, number, low, high in waits}
        consumer = AIOKafkaConsumer(
            **self._kafka, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        try:
            await consumer.start()
            consumer.assign([*wanted])
            begins = await consumer.beginning_offsets([*wanted])
            ends = await consumer.end_offsets([*wanted])
            if any(ends[place] < high for place, (_, high) in wanted.items()):
                return None  # what is open may yet be committed
            for place, (low, _) in wanted.items():
                consumer.seek(place, max(low, begins[place]))
            left = {place: high for place, (_, high) in wanted.items()}
            while left := {
                place: high for place, high in left.items() if await consumer.position(place) < high
            }:
                for place, records in (await consumer.getmany(*left, timeout_ms=200)).items():
                    if records and records[0].offset < left[place]:
                        return None
        finally:
            await wait_for_stop(consumer.stop())
        return [
            Hole(place.topic, place.partition, low, behind - 1, behind - low, 0)
            for place, (low, high) in wanted.items()
            if (behind := min(begins[place], high)) > low
        ]

    async def make(self, recovery: Recovery) -> None:
        """Make the topics of a recovery, where they are not there. Raises KafkaError."""
        configs = {"cleanup.policy": "delete", "retention.ms": str(recovery.keep * 1000)}
        topics = {there: recovery.partitions[topic] for topic, there in recovery.topics.items()}
        await make_topics(self._kafka, topics, configs)

    async def delete(self, recovery: Recovery) -> None:
        """Delete them, where they are there. Raises KafkaError."""
        admin = AIOKafkaAdminClient(**self._kafka)
        try:
            await admin.start()
            gone = await admin.delete_topics(list(recovery.topics.values()))
            for topic, code in gone.topic_error_codes:
                if code and for_code(code) is not UnknownTopicOrPartitionError:
                    raise for_code(code)(topic)
        except UnknownTopicOrPartitionError:
            pass
        finally:
            await wait_for_stop(admin.close())
