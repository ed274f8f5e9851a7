"""The engine of a worker: runs the partitions that Faust's group gives it."""

import asyncio
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import TopicAuthorizationFailedError
from mode import get_logger

from stores.view_state import open_store
from topology.declaration.environment import database_urls
from topology.declaration.ordered_stage import OrderedStage
from topology.declaration.source import Source
from topology.declaration.topology import Topology
from topology.faust.kafka.broker.clock import go_by_broker
from topology.faust.kafka.broker.shapes import wait_for
from topology.faust.kafka.clients import CannotMake, connection, create_topics, partition_count
from topology.faust.kafka.offsets import Offsets
from topology.faust.kafka.reader import Reader
from topology.faust.kafka.topics import Topic, given, needed, own
from topology.faust.settings import Settings
from topology.faust.worker.context import WorkerContext
from topology.faust.worker.operator_orders import OperatorOrders
from topology.faust.worker.ordered.changed_work import check_same_work
from topology.faust.worker.partition import Partition
from topology.faust.worker.reading.barrier import Barriers
from topology.faust.worker.rekey_partition import RekeyPartition
from topology.faust.worker.retry_until_available import retry_until_available
from topology.faust.worker.route_partition import RoutePartition
from topology.faust.worker.routing.process import RouterProcess
from topology.faust.worker.stream_partition import StreamPartition
from topology.faust.worker.tables import Tables
from topology.faust.worker.writing.partitioning import Partitions
from topology.faust.worker.writing.writer import shared_producer
from topology.model.counted import counted
from topology.model.ending import wait_for_stop

logger = get_logger(__name__)

SIDE_WAIT = 200
"""Milliseconds that the broker holds a fetch of redeliveries and commands back."""


class Engine:
    """Starts and stops a Partition per assigned partition; Faust's Recovery tells it when.

    Records are fetched by consumers of the engine's own, which have no group: Faust's group
    consumer decides who has which partition, and never fetches from those that the engine runs.
    """

    def __init__(
        self,
        app: Any,
        topology: Topology,
        settings: Settings,
        stages: Iterable[OrderedStage] = (),
    ) -> None:
        self.app = app
        self.topology = topology
        self.settings = settings
        group: str = app.conf.id
        datadir = Path(settings.datadir).absolute()
        self.tables = Tables(app, open_store(settings.view_state, group, datadir))
        offsets = Offsets(app, group)
        self.context = WorkerContext(
            app=app,
            topology=topology,
            settings=settings,
            group=group,
            tables=self.tables,
            partitions=Partitions(self._ensure_topic),
            offsets=offsets,
            barriers=Barriers(app, offsets),
            shared_reader=Reader(app, settings),
            side_reader=Reader(app, settings, wait=SIDE_WAIT),
            orders=OperatorOrders(app, topology.audit_topic),
            routers={
                name: RouterProcess(app, route, settings.session_timeout)
                for name, route in topology.routes.items()
                if route.reload is not None
            },
        )
        self.changelogs = self.context.changelogs
        self.running: list[Partition] = []
        """The partitions that this worker has."""
        self.is_assigned = False
        """Whether it was told which ones."""
        self._by_topic: dict[str, tuple[Source, bool]] = {}
        for source in topology.sources.values():
            if not source.keyed:
                self._by_topic.update(dict.fromkeys(source.topics, (source, False)))
            self._by_topic[source.by_stream] = (source, True)
        self._stages = {stage.topic: stage for stage in stages}
        self._routes = {t: route for route in topology.routes.values() for t in route.topics}

    # -- what Faust asks

    @property
    def topics(self) -> list[str]:
        """The topics whose partitions the engine runs."""
        return [*self._by_topic, *self._stages, *self._routes]

    def owns(self, topic: str) -> bool:
        """Whether the engine reads a topic itself: an input of its own, or a view's changelog."""
        return topic in self.topics or topic in self.changelogs.values()

    def needed(self, source_days: float = 0) -> list[Topic]:
        """The topics that the engine makes where they are missing."""
        days = self.settings.side_retention_days
        return list(needed(self.topology, self.changelogs, days, source_days))

    def given(self, partitions: int = 0, keep_days: float = 0) -> list[Topic]:
        """The topics that others fill; what they are made with, if somebody says so."""
        return list(given(self.topology, partitions, keep_days))

    async def prepare(self) -> None:
        """Wait for the source topics, and create what else is missing.

        Raises RuntimeError where a topic has the wrong shape, DeclarationError where the
        environment has no URL of a database that a view declares.
        """
        self.context.databases = database_urls(self._stages.values(), os.environ)
        origin = self.app.conf.origin
        await wait_for(self.app, self.given(), f"faust -A {origin or 'app'}")
        await check_same_work(self.app)
        await create_topics(self.app, self.needed(), self.settings.replication)
        await go_by_broker(self.app)

    async def assign(self, assigned: Iterable[TopicPartition]) -> None:
        """Run these partitions and no others."""
        await self.revoke()
        mine = [TopicPartition(*tp) for tp in assigned if tp[0] in self.topics]
        await self._close_tables(mine)
        await retry_until_available(partial(self._connect, mine), self.settings.broker)
        self.running = running = [self._partition(tp) for tp in mine]
        self.is_assigned = True
        # All are there before one begins, so that none runs ahead of another one's start.
        for partition in running:
            partition.join()
        await asyncio.gather(*(partition.start() for partition in running))

    async def revoke(self) -> None:
        """Finish the steps in hand and stop all partitions."""
        running, self.running, self.is_assigned = self.running, [], False
        grace = self.settings.session_timeout * 0.7
        await asyncio.gather(*(partition.stop(grace) for partition in running))
        await self.context.offsets.commit()

    async def stop(self) -> None:
        """Stop for good."""
        await self.revoke()
        await self.tables.close_all()
        context = self.context
        clients: list[Any] = [
            context.shared_reader,
            context.side_reader,
            context.orders,
            *context.standalone_readers.values(),
            *context.barriers.clients(),
            *context.routers.values(),
        ]
        if context.producer is not None:
            clients.append(context.producer)
        context.standalone_readers, context.producer = {}, None
        await asyncio.gather(*(wait_for_stop(client.stop()) for client in clients))

    # -- partitions

    def _partition(self, tp: TopicPartition) -> Partition:
        if (stage := self._stages.get(tp.topic)) is not None:
            # With it come the clients of databases, which nobody else has to load.
            from topology.faust.worker.ordered.ordered_partition import OrderedPartition

            return OrderedPartition(tp, stage, self.context, self.app.crash)
        if (route := self._routes.get(tp.topic)) is not None:
            return RoutePartition(tp, route, self.context, self.app.crash)
        source, ordered = self._by_topic[tp.topic]
        kind = StreamPartition if ordered else RekeyPartition
        return kind(tp, source, self.context, self.app.crash)

    async def _connect(self, mine: list[TopicPartition]) -> None:
        context = self.context
        if context.producer is None and self.settings.guarantee == "at_least_once":
            producer = shared_producer(connection(self.app))
            try:
                await producer.start()
            except BaseException:
                await wait_for_stop(producer.stop())
                raise
            context.producer = producer
        for reader in (context.shared_reader, context.side_reader):
            await reader.start()
        await context.barriers.start()
        for router in context.routers.values():
            router.start()
        context.assigned = mine
        context.shared_reader.assign(mine)
        context.side_reader.assign(
            TopicPartition(topic, tp.partition)
            for tp in mine
            for view in self.topology.views.values()
            if view.of.by_stream == tp.topic
            for topic in (view.redeliver_topic, view.commands_topic)
        )
        for view, reader in context.standalone_readers.items():
            by_stream = self.topology.views[view].of.by_stream
            reader.assign(tp for tp in mine if tp.topic == by_stream)

    async def _ensure_topic(self, topic: str, partitions: int) -> int:
        found = await partition_count(self.app, topic)
        if found is None:
            # One of the topology's own that was deleted is made as it was.
            mine = {each.name: each for each in self.needed()}
            wanted = mine.get(topic) or own(topic, partitions)
            partitions = wanted.partitions
            logger.info("creating topic %s with %s", topic, counted(partitions, "partition"))
            try:
                await create_topics(self.app, [wanted], self.settings.replication)
            except RuntimeError as error:
                # Handlers name topics, and a handler's mistake stops no worker.
                raise CannotMake(str(error)) from None
            found = partitions
        if not found:
            raise TopicAuthorizationFailedError(f"topic {topic!r} may not be described")
        return found

    async def _close_tables(self, mine: list[TopicPartition]) -> None:
        have = {
            (self._by_topic[topic][0].name, number)
            for topic, number in mine
            if topic in self._by_topic
        }
        for stage in self._stages.values():
            for number in self.tables.held(stage.name):
                if TopicPartition(stage.topic, number) not in mine:
                    await self.tables.close(stage.name, number)
        for table in (each for route in self.topology.routes.values() for each in route.tables):
            for number in self.tables.held(table.name):
                if TopicPartition(table.topic, number) not in mine:
                    await self.tables.close(table.name, number)
        for view in self.topology.views.values():
            for number in self.tables.held(view.name):
                if (view.of.name, number) not in have:
                    await self.tables.close(view.name, number)

    async def heartbeat(self) -> None:
        """Commit offsets now and then, and let the group consumer know that the worker is alive."""
        await self.context.offsets.commit()
        self.app.consumer.touch()
