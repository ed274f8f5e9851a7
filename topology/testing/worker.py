"""A simulated worker: what is lost when it dies, and what is not."""

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from topology.source import Source
from topology.testing.disk import FakeTable
from topology.testing.log import FakeLog, TopicPartition
from topology.topology import Topology

if TYPE_CHECKING:
    from topology.testing.runner import PartitionRunner

Guarantee = Literal["exactly_once", "at_least_once"]


@dataclass(slots=True)
class World:
    """What all simulated workers share.

    chance: the one source of randomness. partitions: of every topic but the `sides`, which have
    one. batch: the most records of a fetch. drain: the most events that a step releases out of
    buffers, None for the engine's own limit. own: the topics that only the engine writes to.
    """

    topology: Topology
    log: FakeLog
    chance: Random
    guarantee: Guarantee
    partitions: int
    batch: int
    drain: int | None
    sides: frozenset[str] = field(init=False)
    own: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        names = self.topology
        topics = (names.malformed_topic, names.unknown_topic, names.errors_topic, names.late_topic)
        self.sides = frozenset(topics)
        by_stream = [source.by_stream for source in names.sources.values() if not source.keyed]
        outputs = [view.output for view in names.views.values()]
        changelogs = [self.changelog(view, 0)[0] for view in names.views]
        self.own = frozenset((*topics, *by_stream, *outputs, *changelogs))

    def partition_of(self, key: bytes | None) -> int:
        """The partition that a key goes to, the same in every run."""
        return crc32(key or b"") % self.partitions

    def changelog(self, view: str, partition: int) -> TopicPartition:
        """The changelog partition of a view's partition."""
        return f"{self.topology.name}-{view}-changelog", partition

    def places(self) -> dict[TopicPartition, tuple[Source, bool]]:
        """Every input partition: its source, and whether it is by stream."""
        found: dict[TopicPartition, tuple[Source, bool]] = {}
        for source in self.topology.sources.values():
            for number in range(self.partitions):
                if not source.keyed:
                    found.update({(topic, number): (source, False) for topic in source.topics})
                found[source.by_stream, number] = (source, True)
        return found


class Worker:
    """A worker process and its disk.

    runners: the partitions that it believes to have; None where the runner failed and is to start
    again. uncommitted: at least once, the offsets to commit at the next heartbeat.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.tables: dict[tuple[str, int], FakeTable] = {}
        self.runners: dict[TopicPartition, PartitionRunner | None] = {}
        self.uncommitted: dict[TopicPartition, int] = {}

    def table(self, view: str, partition: int) -> FakeTable:
        """The table of a view's partition on this worker's disk."""
        found = self.tables.get((view, partition))
        if found is None:
            found = self.tables[view, partition] = FakeTable()
        return found

    def close(self, source: Source, topology: Topology, partition: int) -> None:
        """Flush the tables of a partition that another worker gets."""
        for view in topology.views_of(source):
            if (table := self.tables.get((view.name, partition))) is not None:
                table.flush()

    def die(self, chance: Random, *, disk: bool) -> None:
        """Lose all memory and some last writes of each table; everything if the `disk` goes too."""
        self.alive = False
        self.runners.clear()
        self.uncommitted.clear()
        for table in self.tables.values():
            if disk:
                table.clear()
            else:
                table.lose(chance.randrange(table.unsafe + 1))
