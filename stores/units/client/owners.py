"""Who owns which member, as the owners' rows say."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from stores.units.errors import UnitError
from stores.units.kafka.row_log import OWNER, read_key, read_value, reader
from stores.units.kafka.topics import LOOKS, rows_topic
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

logger = logging.getLogger(__name__)

RECENT = 60.0
"""Seconds of rows that are read at first: an owner writes its row far more often than that."""
PAUSE = 0.05
"""Seconds until it is asked again whether to look for owners."""
AGAIN = 0.5
"""Seconds until Kafka is asked again where it did not answer."""


@dataclass(frozen=True, slots=True)
class MemberOwner:
    """Who owns a member. epoch: higher than that of all owners before."""

    member: int
    url: str
    epoch: int


class OwnerFollower:
    """Follows the owners of a subscriber's members.

    kafka: arguments of aiokafka's clients. needed: whether there is anything to look for; who is
    connected with all owners needs no connection with Kafka, and gets no rows.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        destination: str,
        group: str,
        needed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._kafka, self._destination, self._group = kafka, destination, group
        self._topic, self._needed = rows_topic(destination), needed
        self.members = 0
        """Partitions of the destination, as of when it looked last."""
        self.looked = 0.0
        """Monotonic time at which it looked last."""
        self.owners: dict[int, MemberOwner] = {}
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Wait until another owner is known."""
        await self._changed.wait()

    async def follow(self) -> None:
        """Follow until cancelled. Raises UnitError if the topic of rows is not there."""
        while True:
            while not self._needed():
                await asyncio.sleep(PAUSE)
            consumer = reader({"fetch_max_wait_ms": 500, **self._kafka})
            try:
                await consumer.start()
                await self._begin(consumer)
                while self._needed():
                    found = await consumer.getmany(timeout_ms=200)
                    for records in found.values():
                        for record in records:
                            self._take(record)
            except (KafkaError, OSError) as error:
                logger.warning("owners of %s: %s; trying again", self._topic, printable(error))
                await asyncio.sleep(AGAIN)
            finally:
                await wait_for_stop(consumer.stop())

    async def _begin(self, consumer: Any) -> None:
        # Partitions are known of what is assigned.
        consumer.assign([TopicPartition(each, 0) for each in (self._topic, self._destination)])
        for _ in range(LOOKS):  # a broker that begins may not know its topics yet
            await consumer._client.force_metadata_update()
            if numbers := consumer.partitions_for_topic(self._topic):
                break
            await asyncio.sleep(0.2)
        self.members = len(consumer.partitions_for_topic(self._destination) or ())
        if not numbers:
            raise UnitError(
                f"topic {self._topic!r} does not exist; start a unit server of the destination"
            )
        places = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        consumer.assign(places)
        since = round((time.time() - RECENT) * 1000)
        found = await consumer.offsets_for_times(dict.fromkeys(places, since))
        ends = await consumer.end_offsets(places)
        for at in places:
            consumer.seek(at, found[at].offset if found.get(at) else ends[at])
        self.looked = time.monotonic()

    def _take(self, record: Any) -> None:
        match read_key(record.key), read_value(record.value):
            case (group, member, (subject,)), {"url": str(url), "epoch": int(epoch)} if (
                group == self._group and subject == OWNER
            ):
                known = self.owners.get(member)
                if known is not None and known.epoch >= epoch:
                    return
                if urlsplit(url).scheme not in ("http", "https"):
                    logger.warning("member %d: %s is no URL of an owner", member, printable(url))
                    return
                self.owners[member] = MemberOwner(member, url, epoch)
                changed, self._changed = self._changed, asyncio.Event()
                changed.set()
