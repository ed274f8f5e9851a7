"""Whether this path service leads a destination: a consumer group of its services says so."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

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
LONGEST = 60.0
"""Seconds at most, after it was fenced several times."""


class Candidate(ConsumerRebalanceListener):  # type: ignore[misc]
    """Leads a destination whenever the group assigns it to this service.

    Args:
        settings: of the service.
        destination: the topic.
        url: under which producers reach it.
        leaders: destination → its leader, kept here.
    """

    def __init__(
        self, settings: PathSettings, destination: str, url: str, leaders: dict[str, PathLeader]
    ) -> None:
        self._settings, self._destination, self._url = settings, destination, url
        self._leaders = leaders
        self._leading: asyncio.Task[None] | None = None
        self._former: set[asyncio.Task[None]] = set()
        self._assigned = asyncio.Event()
        """Set, and made anew, with each assignment."""

    async def run(self, stopped: asyncio.Event) -> None:
        """Lead when it is its turn, until told to stop."""
        self._consumer = AIOKafkaConsumer(
            **{"retry_backoff_ms": 50, "metadata_max_age_ms": 5_000, **self._settings.kafka},
            group_id=paths_topic(self._destination),
            enable_auto_commit=False,
            session_timeout_ms=round(max(6.0, self._settings.lease) * 1000),
            heartbeat_interval_ms=1000,
        )
        await self._consumer.start()
        self._consumer.subscribe([paths_topic(self._destination)], listener=self)
        try:
            while not stopped.is_set():
                try:
                    await self._consumer.getmany(timeout_ms=200)
                except KafkaError as error:
                    logger.warning("paths: %s; trying again", printable(error))
                    await asyncio.sleep(AGAIN)
        finally:
            await end_tasks(*self._former, *filter(None, [self._leading]))
            await wait_for_stop(self._consumer.stop())

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """A leader goes on: who is not one any more is fenced by the next."""

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Lead, or let go."""
        places = list(assigned)
        self._consumer.pause(*places)  # the group is for the assignment alone
        self._assigned.set()
        self._assigned = asyncio.Event()
        if places and self._leading is None:
            self._leading = asyncio.create_task(self._lead())
        elif not places and self._leading is not None:
            former, self._leading = self._leading, None
            former.cancel()  # a client may swallow that: then it ends when it is fenced
            self._former.add(former)
            former.add_done_callback(self._former.discard)

    async def _lead(self) -> None:
        settings, destination = self._settings, self._destination
        mine, fenced = asyncio.current_task(), 0
        while self._leading is mine:
            leader = PathLeader(destination, dict(settings.kafka), settings.lease, self._url)
            try:
                self._leaders[destination] = leader
                await leader.run()
            except ProducerFenced:
                # Who of two is right the next assignment tells; until then they fence each other.
                logger.warning("paths of %s: another service leads now", destination)
                fenced += 1
            except KafkaError as error:
                logger.warning("paths of %s: %s; starting again", destination, printable(error))
            except Exception:
                logger.exception("paths of %s: leading failed; starting again", destination)
            finally:
                if self._leaders.get(destination) is leader:
                    del self._leaders[destination]
            with suppress(TimeoutError):
                pause = min(AGAIN * 2 ** max(0, fenced - 1), LONGEST)
                await asyncio.wait_for(self._assigned.wait(), pause)
                fenced = 0
