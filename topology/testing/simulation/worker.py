"""A simulated worker: what is lost when it dies, and what is not."""

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING

from topology.declaration.view import View
from topology.testing.simulation.disk import FakeTable
from topology.testing.simulation.log_partition import TopicPartition

if TYPE_CHECKING:
    from topology.testing.simulation.runner import PartitionRunner


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
