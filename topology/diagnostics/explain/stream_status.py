"""A stream's place in a view, as far as it decides what comes next."""

from dataclasses import dataclass
from typing import Literal

from topology.diagnostics.explain.missing import Missing
from topology.diagnostics.explain.went_on_without import NOTHING, Passed
from topology.engine.view_task import ViewTask
from topology.sequencer.progress import Progress

Situation = Literal[
    "unknown",
    "in order",
    "unread",
    "arrived",
    "redelivering",
    "waiting",
    "settling",
    "released",
    "retrying",
    "parked",
    "rebuilding",
    "dead",
    "incomplete",
    "malformed",
    "forgotten",
]
"""Where a stream stands. dead: its next event lies in the dead topic. incomplete: it went on
without some of its events. malformed: messages without a sense have its id in them. arrived: events
of it are with the workers of its view, and not committed. forgotten: messages of it were read, and
the view knows nothing of it. `in order` is said of a stream of which nothing else is to be said.
"""


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """stream, situation, last: as in an Account. head: the first sequence that waits or is away,
    None if none does. waiting: how many wait. missing: the first of the ranges. asked: how many
    late events the stream is to be rebuilt with. passed: what it waits for in the dead topic, or
    went on without.
    """

    task: ViewTask
    stream: str
    situation: Situation
    progress: int | Progress
    last: int
    head: int | None
    waiting: int
    missing: Missing | None
    asked: int = 0
    passed: Passed = NOTHING

    @property
    def blocked(self) -> bool:
        """Whether what is missing is the very next."""
        gap = self.missing
        if gap is None or (self.head is not None and gap.first > self.head):
            return False
        ahead = self.passed.recoverable
        return not ahead or gap.first < (ahead[0].sequence or 0)

    @property
    def opened_by(self) -> str:
        """The kinds of which the stream waits for one to begin with, in words; "" if for none."""
        ordering = self.task.state.ordering
        kinds = sorted(map(repr, ordering.opens)) if ordering.is_new(self.progress) else ()
        return " or ".join(kinds)

    @property
    def begins_with_lowest(self) -> bool:
        """Whether the stream waits for lower events, and then begins with the lowest."""
        ordering = self.task.state.ordering
        return ordering.open_after is not None and ordering.is_new(self.progress)

    @property
    def dead_first(self) -> bool:
        """Whether the very next lies in the dead topic, as far as that is known."""
        ahead = self.passed.recoverable
        if not ahead:
            return False
        first = ahead[0].sequence or 0
        if self.task.state.ordering.counts:
            return first <= self.last + self.task.state.ordering.step
        return self.head is None or first < self.head
