"""The engine of a worker: runs the partitions that Faust's group gives it."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    InvalidProducerEpoch,
    KafkaError,
    ProducerFenced,
)
from mode import get_logger

from stores.rocksdb import TableError
from topology.event import Message
from topology.faust.channel import WorkChannel
from topology.faust.horizon import Horizon
from topology.faust.kafka import (
    connection,
    create_topics,
    missing_topics,
    partition_count,
    plain_consumer,
)
from topology.faust.partitions import Partitions
from topology.faust.runner import RekeyStep, Runner, Step, StreamStep, stopped, wall
from topology.faust.settings import Settings
from topology.faust.tables import Tables
from topology.faust.writer import (
    AcknowledgedWriter,
    TransactionalWriter,
    Writer,
    shared_producer,
)
from topology.source import Source
from topology.stream_task import RekeyTask, StreamTask
from topology.topology import Topology

logger = get_logger(__name__)

RETRY = 1.0
"""Seconds before a partition whose broker failed is started again; doubles up to RETRY_LIMIT."""
RETRY_LIMIT = 15.0
FETCH_WAIT = 20
"""Milliseconds that the broker holds a fetch back when it has nothing. A reader of committed
records waits for all of it even if a transaction ends meanwhile: the broker does not wake it then.
"""
COMMIT = 10.0
"""Seconds that committing offsets may take; at least once, they can be committed later."""


class Engine:
    """Starts and stops a Runner per assigned partition; Faust's Recovery tells it when.

    Records are fetched by a consumer of the engine's own, which has no group: Faust's group
    consumer decides who has which partition, and never fetches from those that the engine runs.
    """

    def __init__(self, app: Any, topology: Topology, settings: Settings) -> None:
        self.app = app
        self.topology = topology
        self.settings = settings
        self.group: str = app.conf.id
        self.tables = Tables(app, Path(settings.datadir).absolute() / self.group)
        self.source_channels: dict[str, WorkChannel] = {}
        self.view_channels: dict[str, WorkChannel] = {}
        self.changelogs: dict[str, str] = {}
        self._partitions = Partitions(self._ensure_topic)
        self._runners: dict[TopicPartition, Runner] = {}
        self._consumer: AIOKafkaConsumer | None = None
        self._watermarks: AIOKafkaConsumer | None = None
        self._producer: AIOKafkaProducer | None = None
        self._restarts: set[asyncio.Task[None]] = set()
        self._generation = 0
        self._uncommitted: dict[TopicPartition, int] = {}
        self._by_topic: dict[str, tuple[Source, bool]] = {}
        for source in topology.sources.values():
            if not source.keyed:
                self._by_topic.update(dict.fromkeys(source.topics, (source, False)))
            self._by_topic[source.by_stream] = (source, True)

    # -- what Faust asks

    @property
    def topics(self) -> list[str]:
        """The topics whose partitions the engine runs."""
        return list(self._by_topic)

    def owns(self, topic: str) -> bool:
        """Whether the engine reads a topic itself: an input of its own, or a view's changelog."""
        return topic in self._by_topic or topic in self.changelogs.values()

    async def prepare(self) -> None:
        """Create what topics are missing. Raises RuntimeError where one has the wrong shape."""
        topology = self.topology
        wanted: dict[str, int] = {}
        for source in topology.sources.values():
            wanted[source.by_stream] = source.partitions
        for view in topology.views.values():
            wanted[view.output] = view.of.partitions
            wanted[self.changelogs[view.name]] = view.of.partitions
        sides = (topology.malformed_topic, topology.late_topic, topology.errors_topic)
        wanted.update(dict.fromkeys((*sides, topology.unknown_topic), 1))
        raw = [t for s in topology.sources.values() if not s.keyed for t in s.topics]
        for topic in await missing_topics(self.app, raw):
            raise RuntimeError(
                f"source topic {topic!r} does not exist; create it, or correct its name in source()"
            )
        compacted = self.changelogs.values()
        await create_topics(self.app, wanted, compacted, self.settings.replication)

    async def assign(self, assigned: Iterable[TopicPartition], generation: int) -> None:
        """Run these partitions and no others."""
        await self.revoke()
        self._generation = generation
        mine = [TopicPartition(*tp) for tp in assigned if tp[0] in self._by_topic]
        self._close_tables(mine)
        await self._connect(mine)
        await asyncio.gather(*(self._start(partition, generation) for partition in mine))

    async def revoke(self) -> None:
        """Finish the steps in hand and stop all runners."""
        self._generation = -1
        for restart in self._restarts:
            restart.cancel()
        runners, self._runners = list(self._runners.values()), {}
        grace = self.settings.session_timeout * 0.7
        await asyncio.gather(*(runner.stop(grace) for runner in runners))
        await self._commit_offsets()

    async def stop(self) -> None:
        """Stop for good."""
        await self.revoke()
        self.tables.close_all()
        for client in (self._consumer, self._watermarks, self._producer):
            if client is not None:
                await stopped(client.stop())
        self._consumer = self._watermarks = self._producer = None

    # -- how a partition starts, and what becomes of it

    async def _connect(self, mine: list[TopicPartition]) -> None:
        if self._consumer is None:
            self._consumer = plain_consumer(
                self.app,
                max_partition_fetch_bytes=self.settings.fetch_bytes,
                fetch_max_wait_ms=FETCH_WAIT,
            )
            await self._consumer.start()
        if self._producer is None and self.settings.guarantee == "at_least_once":
            self._producer = shared_producer(connection(self.app))
            await self._producer.start()
        if self._watermarks is None:
            self._watermarks = plain_consumer(self.app, isolation_level="read_uncommitted")
            await self._watermarks.start()
        self._consumer.assign(mine)

    async def _start(self, partition: TopicPartition, generation: int) -> None:
        delay = RETRY
        while generation == self._generation:
            try:
                runner = await self._runner(partition)
            except (KafkaError, TableError, OSError) as error:
                logger.warning(
                    "cannot start %s/%d, trying again in %.0f s: %s",
                    partition.topic, partition.partition, delay, error,
                )  # fmt: skip
                await asyncio.sleep(delay)
                delay = min(delay * 2, RETRY_LIMIT)
                continue
            if generation != self._generation:
                await stopped(runner.writer.stop())
                return
            self._runners[partition] = runner
            runner.start(self._ended)
            return

    async def _runner(self, partition: TopicPartition) -> Runner:
        """Fence, restore, find the committed offset: in this order, as each relies on the last."""
        source, ordered = self._by_topic[partition.topic]
        writer = self._writer(partition)
        try:
            await writer.start()
            step = await self._step(source, ordered, partition.partition)
            start = await self._seek(partition)
        except BaseException:
            await stopped(writer.stop())
            raise
        return Runner(partition, step, writer, self._fetch, self._position, start)

    def _writer(self, partition: TopicPartition) -> Writer:
        if self._producer is not None:
            return AcknowledgedWriter(
                self._producer, self.changelogs, self._partitions, self._offset_done
            )
        return TransactionalWriter(
            self.group, partition, connection(self.app), self.changelogs, self._partitions
        )

    async def _ensure_topic(self, topic: str, partitions: int) -> int:
        found = await partition_count(self.app, topic)
        if found is None:
            logger.info("making topic %s with %d partitions", topic, partitions)
            await create_topics(self.app, {topic: partitions}, (), self.settings.replication)
            found = partitions
        return found

    async def _step(self, source: Source, ordered: bool, partition: int) -> Step:
        if not ordered:
            return RekeyStep(RekeyTask(self.topology, source), self.source_channels[source.name].do)
        views = self.topology.views_of(source)
        tables = await self.tables.restore(views, partition)
        try:
            task = StreamTask(self.topology, source, partition, tables)
        except (TableError, ValueError):
            for view in views:
                self.tables.discard(view.name, partition)
            raise
        return StreamStep(
            task,
            tables,
            {view.name: self.view_channels[view.name].do for view in views},
            Horizon(lambda: self._barrier(source, partition)),
        )

    async def _seek(self, partition: TopicPartition) -> int:
        assert self._consumer is not None
        committed = (await self._committed([partition])).get(partition)
        first = (await self._consumer.beginning_offsets([partition]))[partition]
        if committed is not None and committed < first:
            logger.error(
                "%s: messages %d to %d were deleted by retention before they were read",
                partition, committed, first - 1,
            )  # fmt: skip
        start: int = max(first, -1 if committed is None else committed)
        self._consumer.seek(partition, start)
        return start

    async def _fetch(self, partition: TopicPartition, timeout: float) -> Sequence[Message]:
        assert self._consumer is not None
        found = await self._consumer.getmany(
            partition, timeout_ms=int(timeout * 1000), max_records=self.settings.batch
        )
        records: Sequence[Message] = found.get(partition, ())
        return records

    async def _position(self, partition: TopicPartition) -> int:
        assert self._consumer is not None
        position: int = await self._consumer.position(partition)
        return position

    def _ended(self, runner: Runner, error: BaseException | None) -> None:
        """A runner stopped: by itself only if something failed."""
        if error is None or self._runners.get(runner.source) is not runner:
            return
        del self._runners[runner.source]
        if isinstance(error, KafkaError | TableError | OSError):
            restart = asyncio.create_task(self._restart(runner, error, self._generation))
            self._restarts.add(restart)
            restart.add_done_callback(self._restarts.discard)
        else:
            logger.error("%s failed: the worker stops", runner.source, exc_info=error)
            self._restarts.add(asyncio.create_task(self.app.crash(error)))

    async def _restart(self, runner: Runner, error: BaseException, generation: int) -> None:
        """Start a partition anew from what is committed; nothing of the failed step is kept."""
        logger.warning("%s failed and starts again: %r", runner.source, error)
        await stopped(runner.writer.stop())
        # Another worker has the partition, as the group will tell this one soon. Fencing that
        # worker off in turn would only make the two take turns.
        fenced = isinstance(error, ProducerFenced | InvalidProducerEpoch)
        await asyncio.sleep(self.settings.session_timeout if fenced else RETRY)
        if isinstance(error, TableError) and runner.source.topic in self._by_topic:
            for view in self.topology.views_of(self._by_topic[runner.source.topic][0]):
                self.tables.discard(view.name, runner.source.partition)
        await self._start(runner.source, generation)

    def _close_tables(self, mine: list[TopicPartition]) -> None:
        have = {(self._by_topic[topic][0].name, number) for topic, number in mine}
        for view in self.topology.views.values():
            for number in self.tables.partitions(view.name):
                if (view.of.name, number) not in have:
                    self.tables.close(view.name, number)

    # -- offsets

    async def _committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        admin = AIOKafkaAdminClient(**connection(self.app))
        await admin.start()
        try:
            found = await admin.list_consumer_group_offsets(self.group, partitions=partitions)
        finally:
            await admin.close()
        return {tp: meta.offset for tp, meta in found.items() if meta.offset >= 0}

    async def _barrier(self, source: Source, partition: int) -> tuple[int, int]:
        """See `Horizon`."""
        assert self._consumer is not None
        began = wall()
        ordered = TopicPartition(source.by_stream, partition)
        if not source.keyed:
            inputs = [
                TopicPartition(topic, number)
                for topic in source.topics
                for number in await self._topic_partitions(topic)
            ]
            ends = await self._consumer.end_offsets(inputs)
            behind = {tp: end for tp, end in ends.items() if end > 0}
            while behind:
                done = await self._committed(list(behind))
                behind = {tp: end for tp, end in behind.items() if done.get(tp, 0) < end}
                if behind:
                    await asyncio.sleep(0.5)
        # The end with open transactions: a re-keying one may have committed its source offset, as
        # seen above, a moment before its records can be read here.
        assert self._watermarks is not None
        return began, (await self._watermarks.end_offsets([ordered]))[ordered]

    async def _topic_partitions(self, topic: str) -> set[int]:
        assert self._consumer is not None
        await self._consumer._client._wait_on_metadata(topic)
        return set(self._consumer.partitions_for_topic(topic) or ())

    async def _offset_done(self, partition: TopicPartition, offset: int) -> None:
        self._uncommitted[partition] = offset

    async def _commit_offsets(self) -> None:
        """At least once: commit what is done; the group refuses it under an old generation."""
        offsets, self._uncommitted = self._uncommitted, {}
        if offsets:
            try:
                await asyncio.wait_for(self.app.consumer._commit(offsets), COMMIT)
            except (KafkaError, TimeoutError) as error:
                logger.warning("offsets are not committed, events will come again: %r", error)

    async def heartbeat(self) -> None:
        """Commit offsets now and then, and let the group consumer know that the worker is alive."""
        if self._uncommitted:
            await self._commit_offsets()
        self.app.consumer.touch()
