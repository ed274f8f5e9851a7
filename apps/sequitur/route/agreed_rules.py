"""The rules of units of work, where the router's processes agree on them in a control topic.

So listeners register, and tables are reloaded, as where the router stays within Kafka.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from stores.segments import SegmentError
from topology.declaration.route import Route
from topology.engine.route_task import endpoint_topic
from topology.faust.kafka.clients import connected_consumer, create_topics, partition_count
from topology.faust.kafka.topics import Topic, own
from topology.faust.worker.routing.process import RouterProcess
from topology.faust.worker.writing.control_writer import LOG
from topology.model.ending import wait_for_stop
from topology.model.printable import printable
from topology.routing import Routing, RuleSet, Trace

logger = logging.getLogger("route")
EXPIRY = 10.0
"""Seconds without a heartbeat after which a process is said to have left."""
_LOOK = 0.1
_AGAIN = 5.0
"""Seconds until a topic that could not be made is tried again."""


class AgreedRules:
    """What this process routes by; it takes part from when it first owns a source.

    Args:
        route: the stage: its rules, where its destinations are, and what loads a version.
        kafka: arguments of aiokafka's clients.
        within: the destinations that are topics of that Kafka.
    """

    def __init__(self, route: Route, kafka: Mapping[str, Any], within: set[str]) -> None:
        self._route, self._kafka, self._within = route, dict(kafka), within
        self._process: RouterProcess | None = None
        self._lock, self._made = asyncio.Lock(), 0
        self._failed: tuple[int, float] | None = None
        """The version some of whose topics could not be made, and when."""
        self._error: Exception | None = None

    @property
    def trace(self) -> Trace:
        """Which trails are written."""
        return Trace() if self._process is None else self._process.member.agreement.trace

    def trail(self, routing: Routing) -> None:
        """Write a trail to the log, soon."""
        if self._process is not None:
            self._process.trails.add(routing)

    async def rules(self, topic: str, new: bool) -> RuleSet:
        """The rules for the next batch of a source, as soon as there are some.

        Args:
            topic: the source.
            new: another process may have routed it: all that was decided is read first, so that
                nothing is routed by a version before that one's.

        Raises:
            ConnectionError: Kafka is away.
            SegmentError: the control topic cannot be used.
        """
        try:
            async with self._lock:
                process = await self._joined()
            behind = await self._end() if new else 0
            while process.read < behind or (rules := process.member.rules_for(topic, 0)) is None:
                await self._check()
                if self._process is not process:  # somebody else was told that it has ended
                    raise SegmentError(f"{self._route.control}: another process takes its place")
                await asyncio.sleep(_LOOK)
            async with self._lock:
                await self._make_topics(rules)
            return rules
        except KafkaError as error:
            raise ConnectionError(f"{self._route.control}: {error!r}") from error
        except RuntimeError as error:
            raise SegmentError(f"{self._route.control}: {printable(error)}") from error

    async def stop(self) -> None:
        """Leave."""
        process, self._process = self._process, None
        if process is not None:
            await process.stop()

    async def _joined(self) -> RouterProcess:
        await self._check()
        if self._process is None:
            await create_topics(self._kafka, [own(self._route.control, 2, compact=True)], -1)
            self._process = RouterProcess(self._kafka, self._route, EXPIRY, self._crashed)
            self._process.start()
        return self._process

    async def _crashed(self, error: Exception) -> None:
        self._error = error

    async def _check(self) -> None:
        """Tell once what ended this process's part; then it begins again."""
        error, self._error = self._error, None
        if error is not None:
            await self.stop()
            raise SegmentError(f"{self._route.control}: {printable(error)}") from error

    async def _end(self) -> int:
        place = TopicPartition(self._route.control, LOG)
        consumer = await connected_consumer(self._kafka)
        try:
            return int((await consumer.end_offsets([place]))[place])
        finally:
            await wait_for_stop(consumer.stop())

    async def _make_topics(self, rules: RuleSet) -> None:
        """Those of endpoints, with as many partitions as their destinations have."""
        if rules.number == self._made:
            return
        if self._failed is not None:
            number, at = self._failed
            if number == rules.number and time.monotonic() < at + _AGAIN:
                return
        self._failed = None
        for each in rules.registered:
            base = self._route.to[each.destination]
            if each.destination in self._within and each.name != each.destination:
                topic = Topic(
                    endpoint_topic(base, each),
                    await partition_count(self._kafka, base) or 1,
                    given=True,
                )
                try:
                    await create_topics(self._kafka, [topic], -1)
                except (RuntimeError, KafkaError) as error:
                    logger.error("endpoint %s: %s", printable(each.name), printable(error))
                    self._failed = rules.number, time.monotonic()
        if self._failed is None:
            self._made = rules.number
