"""What topics have, asked again and again: read anew only where something came or went."""

from collections.abc import Iterable
from functools import cache

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from soak.check import read

_Ends = list[tuple[int, int]]


class TopicRecords:
    """The committed records of a broker's topics, for tests that wait for some to come.

    A whole read costs the broker several times what the ends of a topic's partitions cost it.
    """

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._consumer = Consumer({"bootstrap.servers": broker, "group.id": "ends", "log_level": 0})
        self._found: dict[str, tuple[_Ends | None, list[Message]]] = {}

    def of(self, topic: str) -> list[Message]:
        """The records that a topic has now, partition by partition; none if it is not there."""
        ends = self._ends(topic)
        before, records = self._found.get(topic, (None, []))
        if ends is None or ends != before:
            try:
                records = list(read(self._broker, topic))
            except KeyError:
                return []
            self._found[topic] = ends, records
        return [*records]

    def forget(self, topics: Iterable[str]) -> None:
        """Those that are deleted."""
        for topic in topics:
            self._found.pop(topic, None)

    def may_have(self, topic: str, count: int) -> bool:
        """Whether it may have so many records: it has no more of them than offsets."""
        ends = self._ends(topic)
        if ends != self._found.get(topic, (None, []))[0]:
            self.forget([topic])  # it may come to the same ends again, deleted and made anew
        return ends is None or sum(end - first for first, end in ends) >= count

    def _ends(self, topic: str) -> _Ends | None:
        """None where the broker cannot say them: there is no such topic, or none leads it yet."""
        try:
            found = self._consumer.list_topics(topic, timeout=60).topics[topic].partitions
            partitions = [TopicPartition(topic, number) for number in sorted(found)]
            return [self._consumer.get_watermark_offsets(each, timeout=60) for each in partitions]
        except (KafkaException, KeyError):
            return None


@cache
def topic_records(broker: str) -> TopicRecords:
    """One for all that ask of a broker."""
    return TopicRecords(broker)
