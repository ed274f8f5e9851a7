"""A source: the topics that events come from, how to read them, and how they count."""

from dataclasses import dataclass, replace

from topology.declaration.orders import StreamOrder
from topology.declaration.policies import OnUnknown
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
    """A source, as `Topology.source` returns it.

    Attributes:
        name: the source's name.
        topology: the topology's name.
        topics: the topics that messages come from.
        inspector: what finds stream, sequence and kind, as it was given.
        inspect: the inspector as one function of a message.
        sequence: what orders events.
        keyed: whether the records carry their stream as the key already, on a topic partitioned by
            it. Views read such a topic directly; others are re-keyed to `by_stream`.
        partitions: the number of partitions of the views' input.
        unknown: what happens to messages that the inspector does not know.
        fed_by: the views of the topology that fill the topic, none for somebody else's.
    """

    name: str
    topology: str
    topics: tuple[str, ...]
    inspector: Compiles | InspectorFunction
    inspect: Inspect
    sequence: StreamOrder
    keyed: bool
    partitions: int
    unknown: OnUnknown
    fed_by: tuple[str, ...] = ()

    @property
    def by_stream(self) -> str:
        """The topic in which each stream's events are in one partition."""
        return self.topics[0] if self.keyed else f"{self.topology}.{self.name}.by-stream"

    @property
    def inspect_whole(self) -> Inspect:
        """`inspect` for messages that are known not to be damaged, in less time."""
        inspect: Inspect = getattr(self.inspect, "__wrapped__", self.inspect)
        return inspect

    @property
    def stream_ids(self) -> StreamIds:
        """What kind of ids its streams have."""
        return self.inspector.stream_ids if isinstance(self.inspector, Normalised) else StreamIds()

    def stream_id(self, text: str) -> str:
        """Read a stream's id, as a person or a producer writes it, into the form of the events.

        Args:
            text: the id.

        Raises:
            Malformed: the text is no such id.
        """
        return self.stream_ids.read(text)

    def inspected_by(self, inspector: AnyInspector) -> "Source":
        """Copy the source, with another inspector.

        Args:
            inspector: an inspector, a function of a message, or `"module:name"` of either.

        Raises:
            DeclarationError: it is no inspector.
        """
        found = resolved(inspector, f"source {self.name!r}: inspector")
        order = self.sequence.read_by(found)
        return replace(self, inspector=found, sequence=order, inspect=order.compile(found))
