"""What the sequencer is told and what it decides: Ordering, Gap, Step."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from topology.model.event import Event
from topology.sequencer.progress import Progress

LAST = 2**63 - 1
"""The highest sequence there is."""

Kind = Literal["contiguous", "linked", "monotonic", "followed"]


@dataclass(frozen=True, slots=True)
class Ordering:
    """How a view orders: `start` and `step` of the sequence, ring size, when to give a gap up.

    skip_after: milliseconds, None for never; another value from one step to the next holds for the
    gaps that are noticed from then on. drain, portion: the most events, and bytes of them, that one
    step releases out of the buffers; the rest follows in the next step. full: what becomes of an
    event beyond the ring. learn: whether to say how long gaps lasted that closed. settle: of a
    monotonic order, how long an event waits for lower ones (ms). previous: of a linked one, an
    event's predecessor. follows: of an order of the user's, whether an event is the next behind a
    sequence, None where the stream has yet to begin. open_after: how long a new stream waits for
    its first event before it begins with the lowest (ms). opens: the kinds that begin a stream, if
    only they do. closes: the kinds that close one, which is then remembered for `retention` ms.
    reopen: what comes after that is late, or starts the stream again as if it were new. jump: by
    how much a sequence can be above the last one.
    """

    start: int = 1
    step: int = 1
    size: int = 64
    skip_after: int | None = None
    drain: int = 10_000
    portion: int = 16 << 20
    kind: Kind = "contiguous"
    full: Literal["spill", "redeliver", "halt"] = "spill"
    learn: bool = False
    settle: int = 0
    previous: Callable[[Event], int | None] | None = None
    follows: Callable[[Event, int | None], bool] | None = None
    open_after: int | None = None
    opens: frozenset[str | None] = frozenset()
    closes: frozenset[str | None] = frozenset()
    retention: int = 0
    reopen: Literal["late", "start"] = "late"
    jump: int = LAST

    @property
    def first(self) -> int:
        """The progress of a stream that was not seen before."""
        return self.start - self.step

    def is_new(self, progress: int | Progress) -> bool:
        """Whether a stream has yet to begin, for the first time or again."""
        if isinstance(progress, int):
            return progress == self.first
        return progress.last == self.first or progress.closed is not None


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
    events so far above their stream that their sequence cannot be; nothing is kept of them.
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
