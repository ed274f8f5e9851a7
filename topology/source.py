"""A source: the topics that events come from, how to read them, and how they count."""

from dataclasses import dataclass

from topology.inspector import Inspect, Inspector, InspectorFunction
from topology.policies import Contiguous, OnUnknown


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Declared by `Topology.source`.

    topics: where messages come from. keyed: the records carry their stream as the key already, on
    a topic partitioned by it, and views read it directly; else they are re-keyed to `by_stream`.
    partitions: how many partitions the views' input has.
    """

    name: str
    topology: str
    topics: tuple[str, ...]
    inspector: Inspector | InspectorFunction
    inspect: Inspect
    sequence: Contiguous
    keyed: bool
    partitions: int
    unknown: OnUnknown

    @property
    def by_stream(self) -> str:
        """The topic in which each stream's events are in one partition."""
        return self.topics[0] if self.keyed else f"{self.topology}.{self.name}.by-stream"
