"""The order of commit, and the order within a stream."""

import math
from collections import deque
from collections.abc import Iterator

from topology.ordered_commit.values import COMMITTING, FINISHED, Grant, OpenEvent


class Lane:
    """Open events that commit in the order of arrival: those of the partition, or of a stream.

    oldest, newest: the ends of the chain. finished: those that are finished and do not commit
    ahead. blocker: the oldest one that is not finished while a later one is, since `since` (s).
    overdue: whether the wait for it is over; again: when its next look may be (s). closed: whether
    nothing else may begin until it is done. frozen: what would have begun.
    """

    __slots__ = (
        "again",
        "blocker",
        "closed",
        "deadline",
        "finished",
        "frozen",
        "newest",
        "oldest",
        "overdue",
        "since",
        "stream",
    )

    def __init__(self, stream: str | None = None) -> None:
        self.stream = stream
        self.oldest: OpenEvent | None = None
        self.newest: OpenEvent | None = None
        self.finished = 0
        self.blocker: OpenEvent | None = None
        self.since = 0.0
        self.overdue = False
        self.again = 0.0
        self.closed = False
        self.frozen: list[OpenEvent] = []
        self.deadline = math.inf

    def append(self, event: OpenEvent) -> None:
        """An event has arrived."""
        event.lane = self
        event.older = self.newest
        if self.newest is None:
            self.oldest = event
        else:
            self.newest.newer = event
        self.newest = event

    def remove(self, event: OpenEvent) -> None:
        """An event is done, wherever it stands."""
        older, newer = event.older, event.newer
        if older is None:
            self.oldest = newer
        else:
            older.newer = newer
        if newer is None:
            self.newest = older
        else:
            newer.older = older
        event.older = event.newer = None

    def standing(self) -> tuple[OpenEvent | None, bool]:
        """The oldest event that is not finished, and whether a later one is."""
        event, before = self.oldest, 0
        while event is not None and event.state >= FINISHED:
            before += event.state == FINISHED and not event.ahead
            event = event.newer
        return event, self.finished > before

    def behind(self, event: OpenEvent) -> Iterator[OpenEvent]:
        """The events from this one on up to the last finished one."""
        left, at = self.finished, self.oldest
        while at is not None and at is not event:
            left -= at.state == FINISHED and not at.ahead
            at = at.newer
        while at is not None and left > 0:
            yield at
            left -= at.state == FINISHED and not at.ahead
            at = at.newer


def at_turn(event: OpenEvent) -> bool:
    """Whether what is next older in its lane is in a unit, or of the same grant."""
    older = event.older
    return older is None or older.state == COMMITTING or older.grant is event.grant


class StreamQueue:
    """The open events of a stream whose events run one after the other.

    waiting: to be begun (again), in order. staged: finished before them. running: the attempt in
    hand, whose events are in neither.
    """

    __slots__ = ("running", "staged", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[OpenEvent] = deque()
        self.staged: deque[OpenEvent] = deque()
        self.running: Grant | None = None
