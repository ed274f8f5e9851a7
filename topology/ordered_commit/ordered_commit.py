"""The ordering manager of one partition: events in, grants out, turns to be committed."""

import math
from collections import Counter

from topology.ordered_commit.lanes import at_turn
from topology.ordered_commit.offset_ranges import OffsetRanges
from topology.ordered_commit.open_work import OpenWork
from topology.ordered_commit.values import (
    COMMITTING,
    DONE,
    FINISHED,
    RUNNING,
    WAITING,
    Grant,
)


class OrderedCommit(OpenWork):
    """Decides who begins what, and when whose effects are committed. Times are in seconds.

    A runtime drives it: `arrive` for each message; `next` for each free worker; `finished` or
    `failed` when an attempt ends; after these and at `due`, `poll`, whose actions it carries out;
    then `take_commits`, one commit unit of the effects of these grants in that order together with
    `progress()`, and `committed`. Not safe for threads: the partition's owner calls it.
    """

    # commits

    def take_commits(self, now: float, most: float = math.inf) -> list[Grant]:
        """The finished grants whose turn it is, in the order of commit, for one unit.

        Empty until `committed` or `commit_failed` is told of those taken before. most: bytes of
        their messages and effects; a larger grant is taken alone, and what is left is taken next.
        """
        if self._taken or self._revoked:
            return []
        taken, used, full = self._taken, 0, False

        def fits(grant: Grant) -> bool:
            nonlocal used, full
            used += grant.size + sum(event.size for event in grant.events)
            # What comes behind what is left may have to stay behind it.
            full = full or (bool(taken) and used > most)
            return not full

        lanes = list(self._dirty)
        self._dirty.clear()
        for lane in lanes:  # grows by the other lanes of batches
            event = lane.oldest
            while event is not None and event.state >= FINISHED:
                grant = event.grant
                if event.state == FINISHED and grant is not None:
                    if len(grant.events) > 1 and not all(map(at_turn, grant.events)):
                        break
                    if not fits(grant):
                        self._dirty[lane] = None
                        break
                    if len(grant.events) > 1:
                        lanes += {each.lane for each in grant.events if each.lane is not None}
                    self._take(grant)
                event = event.newer
        ahead, self._older_open.ahead = self._older_open.ahead, []
        free, self._free = self._free, []
        for left, grants in ((self._older_open.ahead, ahead), (self._free, free)):
            for grant in grants:
                if all(event.state == FINISHED and event.grant is grant for event in grant.events):
                    if fits(grant):
                        self._take(grant)
                    else:
                        left.append(grant)
        self._look(dict.fromkeys(lanes), now)
        return taken.copy()

    def _take(self, grant: Grant) -> None:
        self._taken.append(grant)
        for event in grant.events:
            event.state = COMMITTING
            if event.lane is not None and not event.ahead:
                event.lane.finished -= 1

    def progress(self) -> tuple[int, OffsetRanges]:
        """The position and what is done beyond it, once the taken grants are durable."""
        return self._progress.after([event for grant in self._taken for event in grant.events])

    def committed(self, now: float) -> None:
        """The unit of the taken grants is durable."""
        taken, self._taken = self._taken, []
        events = [event for grant in taken for event in grant.events]
        self.counts.committed += len(events)
        self.counts.ahead += self._progress.apply(events)
        self._attempts.staged -= sum(grant.size for grant in taken)
        for event in events:
            event.state, event.grant = DONE, None
            self._bytes -= event.size
            self._attempts.done(event)
            lane = event.lane
            if lane is not None:
                lane.remove(event)
                if lane.oldest is None and lane.stream is not None:
                    del self._streams[lane.stream]
            if event.holds:
                self._older_open.done(event)
        self._look({event.lane for event in events}, now)
        self._measure()

    def commit_failed(
        self, now: float, failed: Grant | None = None, *, counts: bool = True
    ) -> tuple[Grant, ...]:
        """The unit of the taken grants was not made, and what they staged is still there.

        Args:
            now: the time (s).
            failed: the grant whose effects could not be committed: it is rolled back.
            counts: whether that counts for its events, which are settled after several.

        Returns:
            The grants to be rolled back, newest first, as in `Actions.roll_back`.
        """
        taken, self._taken = self._taken, []
        for grant in taken:
            for event in grant.events:
                event.state = FINISHED
                if event.lane is not None and not event.ahead:
                    event.lane.finished += 1
            self._is_finished(grant)
        # What was to commit ahead may be critical to the one that failed: it is decided anew.
        self._older_open.reconsider(taken)
        fallen = (
            [] if failed is None or self._revoked else self._roll_back([failed], now, counts=counts)
        )
        self._look({event.lane for grant in taken for event in grant.events}, now)
        return tuple(fallen)

    # the end

    def revoke(self) -> tuple[Grant, ...]:
        """The partition is taken away: all open grants are old, and nothing more is granted.

        Returns:
            The grants to be cancelled or rolled back, newest first.
        """
        self._revoked = True
        events = reversed(self._progress.open.values())
        fallen = dict.fromkeys(
            event.grant for event in events if event.state in (RUNNING, FINISHED)
        )
        self._attempts.revoke()
        return tuple(grant for grant in fallen if grant is not None)

    @property
    def revoked(self) -> bool:
        """Whether the partition was taken away."""
        return self._revoked

    @property
    def still_running(self) -> tuple[Grant, ...]:
        """Revoked or cancelled attempts that have not ended."""
        return tuple(self._attempts.ending.values())

    @property
    def in_hand(self) -> int:
        """Open events: waiting, in work, staged."""
        return len(self._progress.open)

    @property
    def standing(self) -> tuple[int, int, int]:
        """How many of them are waiting, in work, staged."""
        states = Counter(event.state for event in self._progress.open.values())
        return states[WAITING], states[RUNNING], states[FINISHED] + states[COMMITTING]
