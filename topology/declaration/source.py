"""A source: the topics that events come from, how to read them, and how they count."""

from dataclasses import dataclass, replace

from topology.declaration.linking import compile_for
from topology.declaration.policies import OnUnknown
from topology.declaration.sequences import Sequence
from topology.inspectors.inspector import (
    AnyInspector,
    Compiles,
    Inspect,
    InspectorFunction,
    Normalised,
    resolved,
)
from topology.inspectors.stream_ids import StreamIds


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
    inspector: Compiles | InspectorFunction
    inspect: Inspect
    sequence: Sequence
    keyed: bool
    partitions: int
    unknown: OnUnknown

    @property
    def by_stream(self) -> str:
        """The topic in which each stream's events are in one partition."""
        return self.topics[0] if self.keyed else f"{self.topology}.{self.name}.by-stream"

    @property
    def inspect_whole(self) -> Inspect:
        """`inspect` for messages that are known not to be damaged, in less time."""
        inspect: Inspect = getattr(self.inspect, "__wrapped__", self.inspect)
        return inspect

    def stream_id(self, text: str) -> str:
        """A stream's id as its events have it, of a text as a person or a producer writes it."""
        ids = self.inspector.stream_ids if isinstance(self.inspector, Normalised) else StreamIds()
        return ids.read(text)

    def inspected_by(self, inspector: AnyInspector) -> "Source":
        """The same source with another inspector."""
        found = resolved(inspector, f"source {self.name!r}: inspector")
        return replace(self, inspector=found, inspect=compile_for(self.sequence, found))
