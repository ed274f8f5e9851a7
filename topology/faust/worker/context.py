"""What the partitions of a worker share: its settings, tables, clients and agents."""

import asyncio
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer, TopicPartition

from topology.declaration.source import Source
from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.engine.partition import Alignment, Dispatch, GroupAlignment
from topology.engine.state.short_waits import WaitLimits
from topology.faust.kafka.clients import connection
from topology.faust.kafka.offsets import Offsets
from topology.faust.kafka.reader import Reader
from topology.faust.settings import Settings
from topology.faust.worker.channel import WorkChannel
from topology.faust.worker.operator_orders import OperatorOrders
from topology.faust.worker.read_again import limits_of
from topology.faust.worker.reading.barrier import Barriers
from topology.faust.worker.reading.group_reading import GroupReading
from topology.faust.worker.routing.process import RouterProcess
from topology.faust.worker.tables import ASKED, Tables
from topology.faust.worker.writing.partitioning import Partitions
from topology.faust.worker.writing.refusals import Refusals
from topology.faust.worker.writing.writer import AcknowledgedWriter, TransactionalWriter, Writer
from topology.model.collector import KnownObjects
from topology.model.event import Event
from topology.ordered_commit import OrderedCommit


class Timings(Protocol):
    """What is told how long things take."""

    def timed_steps(self, view: str, dispatch: Dispatch) -> Dispatch:
        """A view's dispatch, whose time counts."""

    def sampled_handlers(self, view: View) -> Callable[[Iterable[Event]], Iterable[Event]]:
        """The events of a step, one of which is timed while a handler has it."""

    def handlers(self, view: str) -> Callable[[float], None]:
        """What is told the seconds of each call of a view's handler."""

    def commits(self, topic: str) -> Callable[[float], None]:
        """What is told the seconds of each commit of a topic's partitions."""


@dataclass(slots=True)
class WorkerContext:
    """What all partitions of a worker use; the engine makes it.

    Attributes:
        changelogs: View → its changelog topic.
        sources: Source → the channel of its agent.
        views: View → the channel of its agent.
        shared_reader: Reads the input of the views that read together.
        side_reader: Reads redeliveries and commands.
        standalone_readers: View → the reader of a view that reads by itself.
        standalone_lock: Held while one of these readers is made.
        producer: The worker's one producer, at least once only.
        assigned: The input partitions that this worker has.
        grant_numbers: The numbers of attempts at events, never the same twice in a process.
        alignments: Source → how far its partitions are.
        group_readings: Source → whether this worker is ahead of the others there.
        orders: What operators told views with workers.
        running: Partition → what handles its events side by side, or did so last.
        undoing: (partition, offset) → calls of compensations that run, also of earlier runs.
        losses: Partition → see `LentConnections.losses`; also of earlier runs of the partition.
        routers: Stage → what agrees with other workers on its rules, where they change.
        databases: Name → the URL of a database that views with workers declare.
        known: Of partitions, the objects that wait in memory.
        kept: Topic → when that was asked, and whether what was read of it is there for a while yet.
        timings: Is told how long things take, where somebody asks for metrics.
    """

    app: Any
    topology: Topology
    settings: Settings
    group: str
    tables: Tables
    partitions: Partitions
    offsets: Offsets
    barriers: Barriers
    shared_reader: Reader
    side_reader: Reader
    orders: OperatorOrders
    changelogs: dict[str, str] = field(default_factory=dict)
    sources: dict[str, WorkChannel] = field(default_factory=dict)
    views: dict[str, WorkChannel] = field(default_factory=dict)
    standalone_readers: dict[str, Reader] = field(default_factory=dict)
    standalone_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    producer: AIOKafkaProducer | None = None
    assigned: list[TopicPartition] = field(default_factory=list)
    grant_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    running: dict[TopicPartition, OrderedCommit] = field(default_factory=dict)
    undoing: dict[tuple[TopicPartition, int], set[Future[Any]]] = field(default_factory=dict)
    losses: dict[TopicPartition, dict[tuple[int, bool], int]] = field(default_factory=dict)
    alignments: dict[str, Alignment] = field(default_factory=dict)
    group_readings: dict[str, GroupReading] = field(default_factory=dict)
    databases: dict[str, str] = field(default_factory=dict)
    known: KnownObjects = field(default_factory=KnownObjects)
    kept: dict[str, tuple[float, WaitLimits | None]] = field(default_factory=dict)
    timings: Timings | None = None
    routers: dict[str, RouterProcess] = field(default_factory=dict)

    def alignment(self, source: str) -> Alignment:
        """How far the partitions of a source that is not keyed are in this worker."""
        found = self.alignments.get(source)
        if found is None:
            found = self.alignments[source] = Alignment(self.settings.read_ahead * 1000)
        return found

    def group_reading(self, source: Source) -> GroupReading:
        """Whether this worker is ahead of others in a source that is not keyed."""
        found = self.group_readings.get(source.name)
        if found is None:
            bound = self.settings.read_ahead * 1000
            found = self.group_readings[source.name] = GroupReading(
                GroupAlignment(bound),
                lambda: self.barriers.unread(source),
                lambda: frozenset(self.assigned),
            )
        return found

    def writer(self, source: TopicPartition, view: str = "", *, atomic: bool = False) -> Writer:
        """A new writer for what is read together, or for one view that reads apart.

        atomic: whether a unit is a transaction at least once, too.
        """
        if self.producer is not None and not atomic:
            return AcknowledgedWriter(
                self.producer, self.changelogs, self.partitions, self.offsets.done
            )
        return TransactionalWriter(
            self.group, source, connection(self.app), self.changelogs, self.partitions, view
        )

    async def limits(self, topic: str) -> WaitLimits | None:
        """How much of an input may be read again, as of the last minute; None where it may be
        deleted too soon."""
        if not self.settings.short_waits:
            return None
        asked, limits = self.kept.get(topic, (-math.inf, None))
        if time.monotonic() - asked > ASKED:
            limits = await limits_of(self.app, topic)
            self.kept[topic] = time.monotonic(), limits
        return limits

    def refusals(self, source: TopicPartition, views: Mapping[str, View] | None = None) -> Refusals:
        """What finds the messages of a partition's handlers that Kafka refuses."""
        views = self.topology.views if views is None else views
        return Refusals(self.app, self.group, source, self.partitions, views)

    async def reader(self, view: str) -> Reader:
        """The reader of a view that reads apart."""
        async with self.standalone_lock:  # all partitions ask at once
            found = self.standalone_readers.get(view)
            if found is None:
                found = Reader(self.app, self.settings)
                await found.start()
                by_stream = self.topology.views[view].of.by_stream
                found.assign(tp for tp in self.assigned if tp.topic == by_stream)
                self.standalone_readers[view] = found
            return found
