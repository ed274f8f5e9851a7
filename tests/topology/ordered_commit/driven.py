"""A short way to drive an OrderedCommit by hand."""

from typing import Any

from topology.ordered_commit import CommitRules, Grant, OrderedCommit, Touched


class Driven:
    """An OrderedCommit with a clock; events are told by their offsets."""

    def __init__(self, **rules: Any) -> None:
        self.core = OrderedCommit(CommitRules(**{"order": "arrival", **rules}))
        self.now = 0.0
        self.grants: dict[int, Grant] = {}

    def arrive(
        self, *streams: str | None, kind: str = "kind", touches: Touched | None = None
    ) -> None:
        """Events at the next offsets, one of each of these streams."""
        for stream in streams:
            self.core.arrive(self.core._progress.seen, stream, kind, 1, self.now, touches)

    def begin(self, most: int = 100) -> list[int]:
        """Grant what may begin; returns the first offsets of the grants."""
        begun: list[int] = []
        while len(begun) < most and (grant := self.core.next(self.now)) is not None:
            begun.append(grant.offset)
            for event in grant.events:
                self.grants[event.offset] = grant
        return begun

    def finish(self, *offsets: int, touched: Touched | None = None, size: int = 1) -> None:
        for offset in offsets:
            assert self.core.finished(self.grants[offset], touched, size, self.now)

    def commit(self) -> list[int]:
        """Commit what has its turn; returns the offsets in the order of commit."""
        taken = self.core.take_commits(self.now)
        self.core.committed(self.now)
        return [event.offset for grant in taken for event in grant.events]

    def pass_time(self, seconds: float) -> tuple[list[int], list[int], list[int]]:
        """Returns the offsets to be hurried, rolled back, and cancelled."""
        self.core.take_commits(self.now)
        self.core.commit_failed(self.now)
        self.now += seconds
        actions = self.core.poll(self.now)
        hurry, back, cancel = actions.hurry, actions.roll_back, actions.cancel
        return [g.offset for g in hurry], [g.offset for g in back], [g.offset for g in cancel]


def key(which: str) -> Touched:
    """What writes one key."""
    return Touched.of([("keys", which)])
