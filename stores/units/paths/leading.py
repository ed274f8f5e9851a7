"""Which destinations this path service leads: a consumer group of the services says so."""

import asyncio
import logging
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from stores.units.kafka.topics import paths_topic
from stores.units.paths.leader import PathLeader
from stores.units.paths.settings import PathSettings
from topology.model.ending import end_tasks, wait_for_stop
from topology.model.printable import printable

logger = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds until a leader that failed starts again."""


class LedDestinations(ConsumerRebalanceListener):  # type: ignore[misc]
    """Leaders of what the group assigns to this service.

    Args:
        settings: of the service.
        url: under which producers reach it.
        leaders: destination → its leader, kept here.
    """

    def __init__(self, settings: PathSettings, url: str, leaders: dict[str, PathLeader]) -> None:
        self._settings, self._url, self._leaders = settings, url, leaders
        self._topics = {paths_topic(each): each for each in settings.destinations}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self, stopped: asyncio.Event) -> None:
        """Lead what the group assigns, until told to stop."""
        consumer = AIOKafkaConsumer(
            **{"retry_backoff_ms": 50, **self._settings.kafka},
            group_id=".".join(("units-paths", *sorted(self._settings.destinations)))[:249],
            enable_auto_commit=False,
            session_timeout_ms=round(max(6.0, self._settings.lease) * 1000),
            heartbeat_interval_ms=1000,
        )
        await consumer.start()
        self._consumer = consumer
        consumer.subscribe(list(self._topics), listener=self)
        try:
            while not stopped.is_set():
                try:
                    await consumer.getmany(timeout_ms=200)
                except KafkaError as error:
                    logger.warning("paths: %s; trying again", printable(error))
                    await asyncio.sleep(AGAIN)
        finally:
            await end_tasks(*self._tasks.values())
            await wait_for_stop(consumer.stop())

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """A leader goes on: who is not one any more is fenced by the next."""

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Lead what is new, and let go of the rest."""
        self._consumer.pause(*assigned)  # the group is for the assignment alone
        mine = {self._topics[each.topic] for each in assigned if each.partition == 0}
        gone = [self._tasks.pop(each) for each in self._tasks.keys() - mine]
        for task in gone:
            task.cancel()
        for destination in mine - self._tasks.keys():
            self._tasks[destination] = asyncio.create_task(self._lead(destination))

    async def _lead(self, destination: str) -> None:
        settings = self._settings
        while True:
            leader = PathLeader(destination, dict(settings.kafka), settings.lease, self._url)
            try:
                self._leaders[destination] = leader
                await leader.run()
            except ProducerFenced:
                logger.warning("paths of %s: another service leads now", destination)
            except KafkaError as error:
                logger.warning("paths of %s: %s; starting again", destination, printable(error))
            except Exception:
                logger.exception("paths of %s: leading failed; starting again", destination)
            finally:
                if self._leaders.get(destination) is leader:
                    del self._leaders[destination]
            await asyncio.sleep(AGAIN)
