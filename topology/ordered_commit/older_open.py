"""What is done when later work is finished and an older event is not."""

from collections.abc import Iterable

from topology.ordered_commit.attempts import Attempts
from topology.ordered_commit.deadlines import Deadlines
from topology.ordered_commit.lanes import Lane
from topology.ordered_commit.rules import CommitRules, WaitAndCommit
from topology.ordered_commit.touched_keys import CriticalPairs, LearnedTouches
from topology.ordered_commit.values import COMMITTING, FINISHED, RUNNING, Grant, OpenEvent, Touched

OFTEN = 0.05
"""The least seconds between two looks at a lane that waits."""
ASKED = 20_000
"""Pairs that a function of the user's is asked about in one look: some milliseconds."""
PAUSE = 0.00001
"""Seconds until the next look at a lane that is overdue, for each event that this one has seen."""
SLICE = 0.01
"""Seconds until the next look, where one has not come to the end."""


class OlderOpen:
    """Waits for the oldest open event of each lane, hurries it, and decides when the wait is over.

    blocked: the lanes that wait. ahead: finished grants that may commit before older ones.
    learns: whether it is of use to learn what events touch.
    """

    def __init__(self, rules: CommitRules, deadlines: Deadlines, attempts: Attempts) -> None:
        self._policy = policy = rules.when_older_is_open
        self.blocked: set[Lane] = set()
        self.ahead: list[Grant] = []
        self.learns = isinstance(policy, WaitAndCommit) and policy.critical is None
        self._learned = LearnedTouches()
        self._hurry_after = rules.hurry_after
        self._deadlines = deadlines
        self._attempts = attempts

    def learn(self, grant: Grant, touched: Touched) -> None:
        """A grant has finished and touched this: what it is of a batch's events is not known."""
        event = grant.events[0]
        if len(grant.events) == 1 and event.touches is None and not grant.settle:
            self._learned.learn(event, touched)

    def look(self, lane: Lane, now: float) -> None:
        """Something has changed in a lane: is there an event that later ones wait for?"""
        blocker = lane.blocker
        if lane.overdue and blocker is not None and blocker.state == COMMITTING:
            return  # what was rolled back runs again after it is durable
        event, waits = lane.standing()
        if event is not blocker or event is None:
            self._release(lane)
            if event is not None and waits:
                lane.blocker, lane.since = event, now
                self.blocked.add(lane)
                self._deadlines.set(lane, now + min(self._policy.wait, self._hurry_after))
        elif lane.overdue:
            if waits:
                self._deadlines.set(lane, max(now, lane.again))
        elif not waits:
            self._release(lane)

    def _release(self, lane: Lane) -> None:
        self._deadlines.clear(lane)
        self.blocked.discard(lane)
        lane.blocker, lane.overdue, lane.closed = None, False, False
        frozen, lane.frozen = lane.frozen, []
        for event in frozen:
            self._attempts.offer_next(event)

    def due(self, lane: Lane, now: float) -> tuple[list[Grant], list[Grant]]:
        """The time of a lane has come. Returns those to be hurried, and those to be rolled back."""
        blocker = lane.blocker
        assert blocker is not None
        waiting = list(lane.behind(blocker))
        hurried = [event.grant for event in waiting if event.state == RUNNING and event.grant]
        hurried = [grant for grant in dict.fromkeys(hurried) if not grant.hurried]
        for grant in hurried:
            grant.hurried = True
        over = lane.since + self._policy.wait
        if not lane.overdue and now < over:
            self._deadlines.set(lane, min(over, now + max(self._hurry_after, OFTEN)))
            return hurried, []
        lane.overdue = True
        lane.again = now + PAUSE * len(waiting)
        if isinstance(self._policy, WaitAndCommit):
            return hurried, self._divide(lane, waiting, self._policy, now)
        lane.closed = True
        roots = _grants(event for event in waiting if _undecided(event))
        running = blocker.grant
        if (
            self._policy.cancel_older
            and running is not None
            and not running.settle
            and now - running.started >= self._policy.wait
        ):
            roots.append(running)
        return hurried, roots

    def _divide(
        self, lane: Lane, waiting: list[OpenEvent], policy: WaitAndCommit, now: float
    ) -> list[Grant]:
        """Let those commit that are not critical to an older one that stays; return the others.

        What it does not come to, since each pair costs a call of the user's, is left as it is.
        """
        pairs = CriticalPairs(self._learned, policy.critical)
        behind: list[Grant] = []
        decided = set[int]()
        for event in waiting:
            grant = event.grant
            if not _undecided(event) or grant is None:
                if event.state < FINISHED:
                    pairs.stay(event, event.held_by or event)
                continue
            if grant.number in decided:
                continue
            if pairs.asked >= ASKED:
                lane.again = now + SLICE
                self._deadlines.set(lane, lane.again)
                break
            decided.add(grant.number)
            found = (pairs.behind(each, grant.touched) for each in grant.events)
            root = next((older for older in found if older is not None), None)
            for each in grant.events:
                if root is None:
                    each.ahead = True
                    each.lane.finished -= 1
                else:
                    pairs.stay(each, root)
                    each.held_by = root
                    root.holds.append(each)
            (self.ahead if root is None else behind).append(grant)
        return behind

    def reconsider(self, taken: Iterable[Grant]) -> None:
        """Nothing is to commit ahead any more, neither what was taken for that nor what was not."""
        for event in (event for grant in (*taken, *self.ahead) for event in grant.events):
            if event.ahead:
                event.ahead = False
                event.lane.finished += 1
        self.ahead = []

    def done(self, event: OpenEvent) -> None:
        """An event is durable: those that were rolled back for its sake may run again."""
        for held in event.holds:
            held.held_by = None
            self._attempts.offer_next(held)
        event.holds = []


def _undecided(event: OpenEvent) -> bool:
    return event.state == FINISHED and not event.ahead


def _grants(events: Iterable[OpenEvent]) -> list[Grant]:
    return list(dict.fromkeys(event.grant for event in events if event.grant is not None))
