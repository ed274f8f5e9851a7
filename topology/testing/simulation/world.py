"""What all simulated workers share."""

from dataclasses import dataclass
from random import Random
from typing import Literal
from zlib import crc32

from topology.declaration.topology import Topology
from topology.engine.state.short_waits import WaitLimits
from topology.testing.simulation.fake_log import FakeLog
from topology.testing.simulation.layout import Layout
from topology.testing.simulation.log_partition import TopicPartition

Guarantee = Literal["exactly_once", "at_least_once"]


@dataclass(slots=True)
class World:
    """What all simulated workers share.

    chance: the one source of randomness. batch: the most records of a fetch. drain: the most events
    that a step releases out of buffers, None for the engine's own limit. memory: bytes for events
    that wait in a partition, None for the engine's own limit. limits: how much of an input may be
    read again for what waits in memory only, None where all that waits has a row.
    """

    layout: Layout
    log: FakeLog
    chance: Random
    guarantee: Guarantee
    batch: int
    drain: int | None
    memory: int | None = None
    limits: WaitLimits | None = None

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
