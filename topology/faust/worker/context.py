"""What the partitions of a worker share: its settings, tables, clients and agents."""

from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition

from topology.declaration.topology import Topology
from topology.faust.kafka.clients import connection
from topology.faust.kafka.offsets import Offsets
from topology.faust.kafka.reader import Reader
from topology.faust.settings import Settings
from topology.faust.worker.barrier import Barriers
from topology.faust.worker.channel import WorkChannel
from topology.faust.worker.partitioning import Partitions
from topology.faust.worker.refusals import Refusals
from topology.faust.worker.tables import Tables
from topology.faust.worker.writer import AcknowledgedWriter, TransactionalWriter, Writer


@dataclass(slots=True)
class Shared:
    """Built by the engine.

    changelogs: view → topic. sources, views: name → the channel of its agent. together: reads what
    views read together; beside: what they read beside their input; apart: view → the reader of a
    view that reads apart. producer: at least
    once, the one producer.
    """

    app: Any
    topology: Topology
    settings: Settings
    group: str
    tables: Tables
    partitions: Partitions
    offsets: Offsets
    barriers: Barriers
    together: Reader
    beside: Reader
    changelogs: dict[str, str] = field(default_factory=dict)
    sources: dict[str, WorkChannel] = field(default_factory=dict)
    views: dict[str, WorkChannel] = field(default_factory=dict)
    apart: dict[str, Reader] = field(default_factory=dict)
    producer: AIOKafkaProducer | None = None
    assigned: list[TopicPartition] = field(default_factory=list)

    def writer(self, source: TopicPartition, view: str = "") -> Writer:
        """A new writer for what is read together, or for one view that reads apart."""
        if self.producer is not None:
            return AcknowledgedWriter(
                self.producer, self.changelogs, self.partitions, self.offsets.done
            )
        return TransactionalWriter(
            self.group, source, connection(self.app), self.changelogs, self.partitions, view
        )

    def refusals(self, source: TopicPartition) -> Refusals:
        """What finds the messages of a partition's handlers that Kafka refuses."""
        return Refusals(self.app, self.group, source, self.partitions, self.topology.views)

    async def reader(self, view: str) -> Reader:
        """The reader of a view that reads apart."""
        found = self.apart.get(view)
        if found is None:
            found = Reader(self.app, self.settings)
            await found.start()
            by_stream = self.topology.views[view].of.by_stream
            found.assign(tp for tp in self.assigned if tp.topic == by_stream)
            self.apart[view] = found
        return found
