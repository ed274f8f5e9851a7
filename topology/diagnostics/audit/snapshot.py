"""Up to where an audit goes: what was committed and what there was when it began."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from topology.engine.intake import IntakeCounts

Partition = tuple[str, int]
"""(topic, number)."""


@dataclass(frozen=True, slots=True)
class AuditSnapshot:
    """committed: input partition → the group's offset, and what is noted with it.

    firsts: partition → the first offset that is still there, where that is not 0. ends: partition →
    the offset behind its last record. once: whether the workers write exactly once. exact: whether
    nothing moved while all of this was noted. held: input partition → how many offsets an open
    transaction hides behind its end.
    """

    committed: Mapping[Partition, tuple[int, IntakeCounts]]
    firsts: Mapping[Partition, int] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    once: bool = True
    exact: bool = True
    held: Mapping[Partition, int] = field(default_factory=dict)

    def position(self, partition: Partition) -> int:
        """The group's offset in an input partition."""
        found = self.committed.get(partition)
        return self.first(partition) if found is None else found[0]

    def taken(self, partition: Partition) -> IntakeCounts:
        """What became of the messages before the group's offset."""
        found = self.committed.get(partition)
        return IntakeCounts() if found is None else found[1]

    def first(self, partition: Partition) -> int:
        return self.firsts.get(partition, 0)
