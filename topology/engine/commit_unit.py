"""The commit unit: what one step of the engine makes durable together, or not at all."""

from collections import defaultdict
from dataclasses import dataclass, field

from topology.model.event import Event
from topology.model.partition_table import Row

NO_HEADERS: list[tuple[str, bytes]] = []
"""Shared by all records without headers; never changed."""


Out = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes]]]
"""A record to write: key, value, timestamp in ms, headers; a plain tuple, as there are so many."""


Traced = tuple[str, Event, list[tuple[str, bytes]]]
"""An event that is part of a trace: its view, itself, the headers that say which trace."""

SentBy = tuple[str, Out, str, str, int]
"""A message of a handler: topic, record; view, stream and sequence of the event that sends it."""


@dataclass(slots=True)
class CommitUnit:
    """Outputs, rows and the input offset of one step, for one input partition.

    next_offset: the input offset to commit, None if the step took no input. intake: goes with that
    offset, see `topology.engine.intake`. colocated: topic → records for the partition of the same
    number as the input's. keyed: topic → records whose key decides the partition. settled: those of
    these topics in which records without a key go where the input's number says, and do not take
    turns. sent: who sent which of these, for messages of handlers. traced: events that were
    handled, and are part of a trace. rows: view → changed rows, for its changelog and its table.
    reports: what is worth a line in the log. malformed, unknown:
    messages that became no event. unrouted: messages of attempts in order that no rule gave a
    destination. now: the wall clock of the step (ms), by which retries are due, and the time that
    is stamped on records: Kafka deletes by it.
    """

    topic: str
    partition: int
    next_offset: int | None = None
    colocated: dict[str, list[Out]] = field(default_factory=lambda: defaultdict(list))
    keyed: dict[str, list[Out]] = field(default_factory=lambda: defaultdict(list))
    settled: set[str] = field(default_factory=set)
    sent: list[SentBy] = field(default_factory=list)
    traced: list[Traced] = field(default_factory=list)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)
    malformed: int = 0
    unknown: int = 0
    unrouted: int = 0
    intake: str = ""
    now: int = 0

    @property
    def place(self) -> tuple[str, int]:
        """The input partition: topic and number."""
        return self.topic, self.partition

    def __bool__(self) -> bool:
        """Whether there is anything to make durable."""
        return bool(self.next_offset is not None or self.colocated or self.keyed or self.rows)
