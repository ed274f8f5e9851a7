"""What the sequencer decides: Gap, Step."""

from dataclasses import dataclass, field

from topology.model.event import Event
from topology.sequencer.progress import Progress


@dataclass(frozen=True, slots=True)
class Gap:
    """Sequences `first` to `last`, missing in front of a buffered event since `since` (ms)."""

    stream: str
    first: int
    last: int
    since: int
    count: int


@dataclass(slots=True)
class Step:
    """What one step decided.

    changed: stream → its new progress. ready: events to handle now, per stream in sequence.
    buffered: events that wait from now on, in the ring or spilled. released: events that waited and
    are ready or gone. duplicates: how many were discarded. conflicts: duplicates whose body differs
    from that of the waiting event of the same sequence. late: events whose sequence was skipped.
    skipped: gaps given up. unfinished: streams whose drain goes on in the next step. redelivered:
    events beyond the ring, which are to come again; nothing is kept of them. full: an event was
    beyond the ring of a view that is to halt then. filled: for each gap that an event closed which
    came late, how long it had lasted (ms). closed: (stream, sequence) of a closing event → when its
    stream is forgotten (ms). reopened: the events that started a closed stream again. impossible:
    events so far above their stream that their sequence cannot be; nothing is kept of them. before:
    stream → the (last, closed) of the Progress that was taken over from the state. retried: events
    that are tried again → how often they were, where that is not known when a retry is due.
    """

    changed: dict[str, int | Progress] = field(default_factory=dict)
    ready: list[Event] = field(default_factory=list)
    buffered: list[Event] = field(default_factory=list)
    released: list[Event] = field(default_factory=list)
    duplicates: int = 0
    conflicts: list[Event] = field(default_factory=list)
    late: list[Event] = field(default_factory=list)
    skipped: list[Gap] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    redelivered: list[Event] = field(default_factory=list)
    full: bool = False
    filled: list[int] = field(default_factory=list)
    closed: dict[tuple[str, int], int] = field(default_factory=dict)
    reopened: list[Event] = field(default_factory=list)
    impossible: list[Event] = field(default_factory=list)
    before: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    retried: dict[Event, int] = field(default_factory=dict)
