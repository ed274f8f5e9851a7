"""What the sequencer is told: how a view orders its streams."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from topology.model.event import Event
from topology.sequencer.progress import Progress, State
from topology.sequencer.ring import RingBuffer
from topology.sequencer.timers import Timers

if TYPE_CHECKING:
    from topology.sequencer.run import Run

LAST = 2**63 - 1
"""The highest sequence there is."""

LOWEST = -LAST
"""The lowest sequence of an order without a start: one below it still fits into 64 bits."""

Beyond = Literal["spill", "redeliver", "halt"]
"""What becomes of an event beyond the ring."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """How a view orders: `start` and `step` of the sequence, ring size, when to give a gap up.

    Each order is a subclass, in a file of its own, and says what is next; beside it is its `Run`,
    which says where an event belongs.

    skip_after: milliseconds, None for never; another value from one step to the next holds for the
    gaps that are noticed from then on. drain, portion: the most events, and bytes of them, that one
    step releases out of the buffers; the rest follows in the next step. full: what becomes of an
    event beyond the ring. learn: whether to say how long gaps lasted that closed. open_after: how
    long a new stream waits for its first event before it begins with the lowest (ms). opens: the
    kinds that begin a stream, if only they do. closes: the kinds that close one, which is then
    remembered for `retention` ms. reopen: what comes after that is late, or starts the stream again
    as if it were new. jump: by how much a sequence can be above the last one.
    """

    start: int = 1
    step: int = 1
    size: int = 64
    skip_after: int | None = None
    drain: int = 10_000
    portion: int = 16 << 20
    full: Beyond = "spill"
    learn: bool = False
    open_after: int | None = None
    opens: frozenset[str | None] = frozenset()
    closes: frozenset[str | None] = frozenset()
    retention: int = 0
    reopen: Literal["late", "start"] = "late"
    jump: int = LAST

    counts: ClassVar[bool] = False
    """Whether every number has its event, so that it is known what is missing."""
    settles: ClassVar[bool] = False
    """Whether an event waits for a time, and for no other event: then there are no gaps."""

    def run(self, state: State, timers: Timers) -> "Run":
        """A step in the making."""
        raise NotImplementedError

    def ring(self) -> RingBuffer:
        """An empty buffer for a stream."""
        return RingBuffer(self.size, self.step)

    def before(self, event: Event, last: int) -> int:
        """The progress behind which `event` was released, `last` being the last processed."""
        raise NotImplementedError

    def has_next(self, progress: Progress) -> bool:
        """Whether the first of the events that wait is the next one."""
        raise NotImplementedError

    def patience(self, progress: Progress) -> int | None:
        """How long a stream waits that is not held (ms), None for ever."""
        starts = self.open_after is not None and self.is_new(progress)
        return self.open_after if starts else self.skip_after

    def at_once(self, **more: Any) -> Self:
        """The same, with nothing to be waited for. more: other fields."""
        return replace(self, skip_after=0, full="spill", learn=False, **more)

    @property
    def first(self) -> int:
        """The progress of a stream that was not seen before."""
        return self.start - self.step

    def is_new(self, progress: int | Progress) -> bool:
        """Whether a stream has yet to begin, for the first time or again."""
        if isinstance(progress, int):
            return progress == self.first
        return progress.last == self.first or progress.closed is not None

    def may_begin(self, progress: Progress, event: Event) -> bool:
        """Whether a stream may go on with an event, which in some views only a few kinds begin."""
        if not self.opens or not self.is_new(progress):
            return True
        return event.kind in self.opens

    def can_go_on(self, progress: Progress) -> bool:
        """Whether a stream that waits has its next event already: a drain was left unfinished."""
        return not progress.suspended and self.has_next(progress)

    def deadline(self, progress: Progress) -> int | None:
        """When a stream that waits is to go on without what is missing (ms), None if never."""
        if progress.rebuild:
            return None
        if progress.held:
            return None if progress.retry is None else progress.retry.due
        after = self.patience(progress)
        return None if after is None else progress.since + after
