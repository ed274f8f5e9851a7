"""Reads topics of errors, and carries out what the alerts in them trigger.

A process that starts reads what still decides about the next record, without carrying anything out
for what was done before. Where Kafka failed, it goes on behind the record that it took last.
"""

import asyncio
import heapq
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

import stores.kafka_records  # noqa: F401  # header names that are not UTF-8
from sequitur.alerts.actions import Actions
from sequitur.alerts.config import AlertsConfig
from stores.kafka_offsets import group_offsets
from stores.kafka_topics import partitions_there
from stores.topic_id import topic_id
from topology.diagnostics.alerts import Alerts, fields_of
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

logger = logging.getLogger("alerts")

AGAIN = 2.0
"""Seconds until it begins again where Kafka failed."""
LOOK = 30.0
"""Seconds between two looks for topics that are not there yet, and new partitions."""
READ = 500
"""Records at a time."""
FIND = 10.0
"""Seconds in which the first records that are not done are there, unless Kafka is slow."""


class Watch:
    """Watches the topics of a configuration.

    Args:
        config: what it goes by.
        kafka: arguments of aiokafka's clients.
        everything: whether what the topics have counts too, where it has never been before.

    Attributes:
        watching: whether topics are read now.
        records: how many were read.
        alerts: pattern → how many alerts it had.
    """

    def __init__(
        self, config: AlertsConfig, kafka: Mapping[str, Any], everything: bool = False
    ) -> None:
        self._config, self._kafka, self._everything = config, kafka, everything
        self.actions = Actions(config.action)
        self.watching, self.records = False, 0
        self.alerts: Counter[str] = Counter()
        self._at_first: dict[TopicPartition, str] | None = None
        self._found = Alerts(config.patterns)
        self._before = Alerts(config.patterns)
        """Finds what was triggered before; actions may look back further than patterns."""
        self._since = 0
        """From when on the patterns look back (ms)."""
        self._ids: dict[TopicPartition, str] = {}
        self._done: dict[TopicPartition, int] = {}
        """Where new records begin; what is before was done by another process."""
        self._next: dict[TopicPartition, int] = {}
        """Where to read on."""

    async def run(self, stopped: asyncio.Event) -> None:
        """Watch until it is told to stop; begin again where Kafka failed."""
        while not stopped.is_set():
            consumer = AIOKafkaConsumer(
                **self._kafka,
                group_id=self._config.name,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            )
            try:
                await consumer.start()
                while not stopped.is_set():
                    await self._read(consumer, stopped)
            except (KafkaError, OSError) as error:
                logger.warning("%s; trying again", printable(repr(error)))
                await asyncio.sleep(AGAIN)
            finally:
                self.watching = False
                await wait_for_stop(consumer.stop())

    async def _read(self, consumer: Any, stopped: asyncio.Event) -> None:
        """Read the partitions that there are, until it is time to look for others."""
        places = await self._places()
        if self._at_first is None:
            self._at_first = places
        self.watching = bool(places)
        if not places:
            logger.info("none of the topics is there yet: %s", ", ".join(self._config.topics))
            await _within(stopped, LOOK)
            return
        consumer.assign(list(places))
        await self._begin(consumer, places)
        looked = time.monotonic()
        while not stopped.is_set():
            found = await consumer.getmany(timeout_ms=500, max_records=READ)
            # By their times, and those of a partition one after the other.
            for record in heapq.merge(*found.values(), key=lambda each: int(each.timestamp)):
                if stopped.is_set():
                    break
                at = TopicPartition(record.topic, record.partition)
                acted = await self._take(record, new=record.offset >= self._done[at])
                self.records += 1
                self._next[at] = record.offset + 1
                if acted:
                    await self._commit(consumer, [at])
            if found:
                await self._commit(consumer, found)
            if time.monotonic() - looked > LOOK:
                looked = time.monotonic()
                if await self._places() != places:
                    return

    async def _commit(self, consumer: Any, places: Iterable[TopicPartition]) -> None:
        ends = {at: max(self._done[at], self._next[at]) for at in places}
        await consumer.commit(
            {at: OffsetAndMetadata(end, self._ids[at]) for at, end in ends.items()}
        )

    async def _take(self, record: Any, *, new: bool) -> bool:
        """Take a record; says whether anything was carried out for it."""
        if (fields := fields_of(record)) is None:
            return False
        acted = False
        # A clock that was ahead does not keep a pattern quiet until then.
        when = min(int(record.timestamp), int(time.time() * 1000))
        since = None if new else self._since
        found = self._found.note(fields, when, since) if new or when >= self._since else []
        for alert, actions in found if new else self._before.note(fields, when):
            if new:
                self.alerts[alert.pattern] += 1
                logger.warning("%s", alert.subject)
            for name in actions:
                if self.actions.admits(name, when, new=new) and new:
                    await self.actions.carry_out(name, alert)
                    acted = True
        return acted

    async def _places(self) -> dict[TopicPartition, str]:
        """The partitions that there are of the topics, and the id of each one's topic, if known."""
        admin = AIOKafkaAdminClient(**self._kafka)
        await admin.start()
        try:
            known = await partitions_there(admin, self._config.topics)
            ids = {topic: await topic_id(admin._client, topic) or "" for topic in known}
        finally:
            await wait_for_stop(admin.close())
        return {
            TopicPartition(topic, number): ids[topic]
            for topic, partitions in known.items()
            for number in range(partitions)
        }

    async def _committed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """How far this watch was, and in topics of which ids."""
        admin = AIOKafkaAdminClient(**self._kafka)
        await admin.start()
        try:
            return await group_offsets(admin, self._config.name)
        finally:
            await wait_for_stop(admin.close())

    async def _begin(self, consumer: Any, places: dict[TopicPartition, str]) -> None:
        """Seek to where it was, or to what decides about the next record where it was not."""
        first = await consumer.beginning_offsets(list(places))
        ends = await consumer.end_offsets(list(places))
        noted = await self._committed()
        done: dict[TopicPartition, int] = {}
        for at, id in places.items():
            known = self._ids.get(at, "")
            if self._next.get(at, ends[at] + 1) <= ends[at] and not (id and known and id != known):
                continue
            if at in noted:
                committed, of = noted[at].offset, noted[at].metadata
                if committed > ends[at] or (id and of and id != of):
                    logger.warning("%s/%d was made anew: it is read from its beginning", *at)
                    committed = first[at]
            else:
                # What has come since this process began to look, it has from its first record on.
                new = self._everything or (self._at_first or {}).get(at) != id
                committed = first[at] if new else ends[at]
            done[at] = committed
        if done:
            # What decides about the first record that is not done came before that one, not before
            # now.
            undone = {at: max(first[at], n) for at, n in done.items()}
            begins = min([int(time.time() * 1000), *await _times(consumer, undone, ends)])
            self._since = begins - int(self._found.memory * 1000)
            since = max(0, min(self._since, begins - int(self.actions.memory * 1000)))
            recent = await consumer.offsets_for_times(dict.fromkeys(done, since))
            for at, n in done.items():
                back = recent[at].offset if recent.get(at) else ends[at]
                self._next[at] = max(first[at], min(n, back))
            self._done |= done
        self._ids |= places
        for at in places:
            consumer.seek(at, self._next[at])
        # From now on it has been here, whenever it is asked again.
        await self._commit(consumer, places)


async def _times(
    consumer: Any, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[int]:
    """The time of the first record from each of the offsets on, where there is one (ms)."""
    for at, start in starts.items():
        consumer.seek(at, start)
    left = {at for at, start in starts.items() if start < ends[at]}
    times: list[int] = []
    until = time.monotonic() + FIND
    while left and time.monotonic() < until:
        found = await consumer.getmany(*left, timeout_ms=500, max_records=1)
        times += [int(records[0].timestamp) for records in found.values() if records]
        # Behind the last record there may be offsets without one, as of transactions.
        passed = {at for at in left if await consumer.position(at) >= ends[at]}
        left -= {*found, *passed}
    return times


async def _within(stopped: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stopped.wait()
    except TimeoutError:
        pass
