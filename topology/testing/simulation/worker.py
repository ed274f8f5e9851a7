"""A simulated worker: what is lost when it dies, and what is not."""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.testing.simulation.disk import FakeTable
from topology.testing.simulation.layout import Layout
from topology.testing.simulation.log import FakeLog, TopicPartition

if TYPE_CHECKING:
    from topology.testing.simulation.runner import PartitionRunner

Guarantee = Literal["exactly_once", "at_least_once"]


@dataclass(slots=True)
class World:
    """What all simulated workers share.

    chance: the one source of randomness. batch: the most records of a fetch. drain: the most events
    that a step releases out of buffers, None for the engine's own limit. memory: bytes for events
    that wait in a partition, None for the engine's own limit.
    """

    layout: Layout
    log: FakeLog
    chance: Random
    guarantee: Guarantee
    batch: int
    drain: int | None
    memory: int | None = None

    @property
    def topology(self) -> Topology:
        return self.layout.topology

    @property
    def partitions(self) -> int:
        """How many partitions each topic has, but for the `sides`, which have one."""
        return self.layout.partitions

    def partition_of(self, key: bytes | None) -> int:
        """The partition that a key goes to, the same in every run."""
        return crc32(key or b"") % self.layout.partitions

    def changelog(self, view: str, partition: int) -> TopicPartition:
        """The changelog partition of a view's partition."""
        return self.layout.changelogs[view, partition]


class Worker:
    """A worker process and its disk.

    ahead: ms that the process's clock is ahead of the broker's: it goes by what its machine's clock
    said when it started, whatever that is set to later. runners: the partitions that it believes to
    have; None where the runner failed and is to start again. uncommitted: at least once, the
    offsets to commit at the next heartbeat.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.ahead = 0
        self.tables: dict[tuple[str, int], FakeTable] = {}
        self.runners: dict[TopicPartition, PartitionRunner | None] = {}
        self.uncommitted: dict[TopicPartition, int] = {}

    def table(self, view: str, partition: int) -> FakeTable:
        """The table of a view's partition on this worker's disk."""
        found = self.tables.get((view, partition))
        if found is None:
            found = self.tables[view, partition] = FakeTable()
        return found

    def close(self, views: Iterable[View], partition: int) -> None:
        """Flush the tables of a partition that another worker gets."""
        for view in views:
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
