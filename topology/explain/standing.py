"""A stream's place in a view, as far as it decides what comes next."""

from dataclasses import dataclass
from typing import Literal

from topology.explain.missing import Missing
from topology.progress import Progress
from topology.view_task import ViewTask

Situation = Literal[
    "unknown",
    "in order",
    "unread",
    "redelivering",
    "waiting",
    "settling",
    "released",
    "retrying",
    "parked",
    "rebuilding",
]


@dataclass(frozen=True, slots=True)
class Standing:
    """stream, situation, last: as in an Account. head: the first sequence that waits or is away,
    None if none does. waiting: how many wait. missing: the first of the ranges. asked: how many
    late events the stream is to be rebuilt with.
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

    @property
    def blocked(self) -> bool:
        """Whether what is missing is the very next."""
        return self.missing is not None and (self.head is None or self.missing.first < self.head)
