"""What the leader of paths watches: which members are up, and what subscribers have left."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaTimeoutError

from stores.units.kafka.row_log import read_key, read_value, reader
from stores.units.kafka.topics import rows_topic
from stores.units.routing import PathMap, SubscriberProgress
from topology.model.ending import wait_for_stop

LOOK = 1.0
"""Seconds between looks at the members."""


class MemberWatch:
    """Watches a destination's members.

    Args:
        destination: the topic.
        kafka: arguments of aiokafka's clients.
        producer: the leader's, which knows which members are up.
        paths: what is told of members and their loads.
        looked: called after each look, once the rows of all subscribers are known.
    """

    def __init__(
        self,
        destination: str,
        kafka: Mapping[str, Any],
        producer: AIOKafkaProducer,
        paths: PathMap,
        looked: Callable[[], None],
    ) -> None:
        self._destination, self._kafka, self._producer = destination, kafka, producer
        self._paths, self._looked = paths, looked
        self.up: set[int] = set()
        """Members that can be sent to."""
        self.progress = SubscriberProgress()

    async def look(self) -> None:
        """Which members there are, and which are up."""
        found = await self._producer.partitions_for(self._destination)
        cluster = self._producer.client.cluster
        self.up = set(cluster.available_partitions_for_topic(self._destination) or ())
        for member in found:
            self._paths.add_member(str(member))
            self._paths.set_reachable(str(member), member in self.up)

    async def follow(self) -> None:
        """Follow what subscribers have left, and how loaded members are. Raises KafkaError."""
        consumer = reader(self._kafka)
        await consumer.start()
        try:
            topic = rows_topic(self._destination)
            numbers = await self._producer.partitions_for(topic)
            rows = [TopicPartition(topic, each) for each in sorted(numbers)]
            consumer.assign(rows)
            ends = await consumer.end_offsets(rows)
            await consumer.seek_to_beginning()
            looked = 0.0
            while True:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    for record in records:
                        if key := read_key(record.key):
                            self.progress.take(*key, read_value(record.value))
                # Before that there may be subscribers of whom nothing was read yet.
                while ends and await consumer.position(rows[-1]) >= ends[rows[-1]]:
                    del ends[rows.pop()]
                if not ends and time.monotonic() - looked > LOOK:
                    looked = time.monotonic()
                    await self.look()
                    await self._weigh(consumer)
                    self._looked()
        finally:
            await wait_for_stop(consumer.stop())

    async def _weigh(self, consumer: AIOKafkaConsumer) -> None:
        """How loaded members are."""
        places = {each: TopicPartition(self._destination, each) for each in self.up}
        with suppress(KafkaTimeoutError):  # one has just gone down
            ends = await consumer.end_offsets(list(places.values()))
            for member, at in places.items():
                self._paths.set_load(str(member), self.progress.backlog(member, ends[at]))
