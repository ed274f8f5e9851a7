"""What the leader of paths watches: which members are up, and what subscribers have left."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from stores.units.kafka.row_log import position_of, read_key, read_value, reader
from stores.units.kafka.topics import rows_topic
from stores.units.routing import PathMap, SubscriberProgress
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

logger = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between looks at the members."""


class MemberWatch:
    """Watches a destination's members.

    Args:
        destination: the topic.
        kafka: arguments of aiokafka's clients.
        producer: the leader's, which knows which members are up.
        paths: what is told of members and their loads.
        looked: called after each look.
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
        """Members that answered when they were looked at last."""
        self.progress = SubscriberProgress()
        self.complete = False
        """Whether the rows of all subscribers are known."""

    async def look(self, consumer: AIOKafkaConsumer | None = None) -> None:
        """Which members there are, and which are up: all that Kafka names, or that answer it.

        Args:
            consumer: that asks each of them; None goes by what Kafka says.
        """
        found = await self._producer.partitions_for(self._destination)
        cluster = self._producer.client.cluster
        up = set(cluster.available_partitions_for_topic(self._destination) or ())
        self.up = await self._answering(consumer, up) if consumer and up else up
        for member in found:
            self._paths.add_member(str(member))
            self._paths.set_reachable(str(member), member in self.up)

    async def follow(self) -> None:
        """Look at the members, and follow the rows of subscribers, until cancelled.

        A partition of the rows that is down keeps paths from being deleted, and nothing else.
        """
        while True:
            consumer = reader(self._kafka)
            try:
                await consumer.start()
                await self._follow(consumer)
            except (KafkaError, OSError) as error:
                logger.warning("rows of %s: %s; trying again", self._destination, printable(error))
            finally:
                self.complete = False
                await wait_for_stop(consumer.stop())
            await asyncio.sleep(LOOK)

    async def _follow(self, consumer: AIOKafkaConsumer) -> None:
        await self._look_and_tell(consumer)
        self.progress = SubscriberProgress()
        topic = rows_topic(self._destination)
        numbers = await self._producer.partitions_for(topic)
        rows = [TopicPartition(topic, each) for each in sorted(numbers)]
        consumer.assign(rows)
        ends = await consumer.end_offsets(rows)
        await consumer.seek_to_beginning()
        looked = time.monotonic()
        while True:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for record in records:
                    if key := read_key(record.key):
                        self.progress.take(*key, read_value(record.value))
            # Before that there may be subscribers of whom nothing was read yet.
            while ends and await position_of(consumer, rows[-1], LOOK) >= ends[rows[-1]]:
                del ends[rows.pop()]
            self.complete = not ends
            if time.monotonic() - looked > LOOK:
                await self._look_and_tell(consumer)
                looked = time.monotonic()

    async def _look_and_tell(self, consumer: AIOKafkaConsumer) -> None:
        await self.look(consumer)
        self._looked()

    async def _answering(self, consumer: AIOKafkaConsumer, members: set[int]) -> set[int]:
        """Which of the members answer; how loaded these are."""
        places = {each: TopicPartition(self._destination, each) for each in members}
        try:
            ends = await consumer.end_offsets(list(places.values()))
        except KafkaError as error:  # asked one by one, all but the one that went down answer
            if len(members) == 1:
                if members <= self.up:
                    logger.warning("member %d does not answer: %s", *members, printable(error))
                return set()
            found = (self._answering(consumer, {each}) for each in members)
            return set().union(*await asyncio.gather(*found))
        for member, at in places.items():
            self._paths.set_load(str(member), self.progress.backlog(member, ends[at]))
        return members
