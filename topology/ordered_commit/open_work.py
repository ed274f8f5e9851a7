"""The events in hand of one partition: they arrive, are granted, and finish, fail or fall."""

import itertools
import math
from collections.abc import Iterable, Iterator
from enum import Enum

from topology.ordered_commit.attempts import Attempts
from topology.ordered_commit.deadlines import Deadlines
from topology.ordered_commit.lanes import Lane
from topology.ordered_commit.offset_ranges import OffsetRanges
from topology.ordered_commit.older_open import OlderOpen
from topology.ordered_commit.progress import CommitProgress
from topology.ordered_commit.rules import CommitRules
from topology.ordered_commit.values import (
    FINISHED,
    RUNNING,
    Actions,
    CommitCounts,
    Grant,
    OpenEvent,
    Touched,
)

_NOTHING = Actions()


class FailureOutcome(Enum):
    """What comes of a failed attempt."""

    OLD = "old"
    """The grant is old: drop everything."""
    RETRIED = "retried"
    """The attempt is given up; `next` grants another one after the backoff."""
    UNSETTLED = "unsettled"
    """The error policy decides under this grant, which stays open: see `OrderedCommit.failed`."""


class OpenWork:
    """What has arrived and is not done: who begins what, and what is rolled back.

    `OrderedCommit` adds the turns; see there.
    """

    def __init__(
        self,
        rules: CommitRules,
        done: OffsetRanges | None = None,
        position: int = 0,
        *,
        numbers: Iterator[int] | None = None,
        still_running: Iterable[Grant] = (),
    ) -> None:
        """Begin where the last durable unit ended.

        Args:
            rules: of the view.
            done: offsets that are done beyond `position`, from the unit.
            position: the first offset that is not done, from the unit.
            numbers: where grants get their numbers; give the same to all of a process, so that
                attempts of an earlier run of the partition are old here.
            still_running: the `still_running` of the partition's earlier run in this process: their
                streams wait until `ended` is told of each.
        """
        self.rules = rules
        self.counts = CommitCounts()
        self._progress = CommitProgress(position, OffsetRanges() if done is None else done.copy())
        self._deadlines = Deadlines()
        self._attempts = Attempts(
            rules,
            self._deadlines,
            itertools.count(1) if numbers is None else numbers,
            still_running,
        )
        self._older_open = OlderOpen(rules, self._deadlines, self._attempts)
        self._arrivals = Lane() if rules.order == "arrival" else None
        self._streams: dict[str, Lane] = {}
        self._waits = rules.order == "arrival" or rules.within_stream == "parallel"
        self._dirty: dict[Lane, None] = {}
        self._free: list[Grant] = []
        self._taken: list[Grant] = []
        self._bytes = 0
        self._paused = False
        self._revoked = False
        self.halted = False
        """Whether nothing more is granted, until it is set to False again."""

    @property
    def position(self) -> int:
        """The offset from which on something may be open, as of the last `committed`."""
        return self._progress.position

    @property
    def done(self) -> OffsetRanges:
        """What is done beyond the position, as of the last `committed`."""
        return self._progress.done

    # intake

    def arrive(
        self,
        offset: int,
        stream: str | None,
        kind: str,
        size: int,
        now: float,
        touches: Touched | None = None,
    ) -> bool:
        """An event has arrived.

        Args:
            offset: of the message; higher than that of each one before.
            stream: its stream; None for a message without a key.
            kind: of the event, as touches are learned by kind.
            size: bytes of the message.
            now: the time (s).
            touches: the keys that it is declared to touch; None: learn them.

        Returns:
            False if it is to be left out: it is done, or has arrived already.
        """
        if self._revoked or not self._progress.arrives(offset):
            self.counts.left_out += 1
            return False
        event = OpenEvent(offset, stream, kind, size, now, touches)
        self._progress.add(event)
        self.counts.arrived += 1
        self._bytes += size
        lane = self._arrivals
        if lane is None and stream is not None:
            lane = self._streams.get(stream)
            if lane is None:
                lane = self._streams[stream] = Lane(stream)
        if lane is not None:
            lane.append(event)
        self._attempts.admit(event)
        self._measure()
        return True

    @property
    def room(self) -> bool:
        """Whether intake goes on; after a pause, once a quarter of the limits is free again."""
        return not self._paused

    def _measure(self) -> None:
        rules, events = self.rules, len(self._progress.open)
        size = self._bytes + self._attempts.staged
        if self._paused:
            self._paused = events > 0.75 * rules.max_events or size > 0.75 * rules.max_bytes
        elif events >= rules.max_events or size >= rules.max_bytes:
            self._paused = True
            self.counts.paused += 1

    def reached(self, position: int) -> None:
        """The reader is at `position`: what lies before it and did not arrive is no event.

        Once the partition is revoked, what is read was left out, and is for who has it next.
        """
        if not self._revoked:
            self._progress.reach(position)

    def lost(self, first: int, end: int) -> int:
        """Retention has eaten the offsets from `first` up to before `end`.

        Returns:
            How many of them were neither done nor in hand: log it. They are counted and passed, but
            for what is lost once the partition is revoked: who has it next tells of that.
        """
        if self._revoked:
            return 0
        lost = self._progress.lose(first, end)
        self.counts.lost += lost
        return lost

    # work

    def next(self, now: float) -> Grant | None:
        """What a free worker does next; None if there is nothing that may be begun."""
        if self._revoked or self.halted:
            return None
        attempts = self._attempts
        only = self._progress.oldest if attempts.staged >= self.rules.max_bytes else None
        grant = attempts.begin(bool(self._older_open.blocked), only, now)
        if grant is not None and grant.settle:
            self.counts.unsettled += 1
        return grant

    def finished(self, grant: Grant, touched: Touched | None, size: int, now: float) -> bool:
        """An attempt has succeeded, or the error policy's effects stand in for it.

        Args:
            grant: of the attempt.
            touched: the keys that it read and wrote; None: unknown, or the declared ones.
            size: bytes that it staged.
            now: the time (s).

        Returns:
            False if the grant is old: drop the effects.
        """
        if not self._close(grant, now):
            return False
        self.counts.finished += len(grant.events)
        grant.touched = _touched(grant) if touched is None else touched
        self._attempts.finish(grant, size)
        if touched is not None and self._older_open.learns:
            self._older_open.learn(grant, touched)
        self._is_finished(grant)
        self._measure()
        return True

    def _is_finished(self, grant: Grant) -> None:
        if all(event.lane is None for event in grant.events):
            self._free.append(grant)
        for event in grant.events:
            if event.lane is not None:
                self._dirty[event.lane] = None

    def _close(self, grant: Grant, now: float) -> bool:
        """Whether an attempt's result counts."""
        if self._attempts.close(grant):
            return True
        self.counts.old += len(grant.events)
        self.ended(grant, now)
        return False

    def failed(self, grant: Grant, now: float) -> FailureOutcome:
        """An attempt has failed.

        Returns:
            What comes of it. If it is UNSETTLED, or if the grant says `settle`, the error policy
            decides, and the runtime calls `finished` with what it makes of the event (a line in
            the error log, a parked row), or `retry`, or nothing, which halts everything behind it.
        """
        if grant.settle and grant.number in self._attempts.running:
            return FailureOutcome.UNSETTLED
        if not self._close(grant, now):
            return FailureOutcome.OLD
        self.counts.failed += len(grant.events)
        for event in grant.events:
            event.failures += 1
        retried = len(grant.events) > 1 or grant.events[0].failures <= self.rules.retries
        if not retried:
            grant.settle = True
            self._attempts.running[grant.number] = grant
            return FailureOutcome.UNSETTLED
        self.counts.retried += len(grant.events)
        self._attempts.withdraw([grant])
        for event in grant.events:
            self._deadlines.set(event, now + self.rules.delay(event.failures))
        return FailureOutcome.RETRIED

    def retry(self, grant: Grant, delay: float, now: float, *, anew: bool = True) -> bool:
        """Have a granted event handled again after `delay` seconds, as the error policy says.

        anew: its rollbacks are counted from 0; else the attempt counts for nothing.

        Returns:
            False if the grant is old.
        """
        if not self._close(grant, now):
            return False
        self._attempts.withdraw([grant])
        for event in grant.events:
            event.rollbacks = 0 if anew else event.rollbacks
            self._deadlines.set(event, now + delay)
        return True

    def split(self, grant: Grant, now: float) -> None:
        """Grant the events of a batch one by one instead, which cannot be handled together."""
        if self._close(grant, now):
            for event in grant.events:
                event.alone = True
            self._attempts.withdraw([grant])

    def give_way(self, holder: Grant, older: Grant, now: float) -> Actions:
        """Roll a later event back, which holds what an older one needs; it runs again after that.

        It does not count for the error policy.

        Returns:
            What is to be rolled back and cancelled: nothing if the holder is not later, is being
            committed, or either grant is old.
        """
        open_ = all(e.grant is holder and e.state in (RUNNING, FINISHED) for e in holder.events)
        if not open_ or older.number not in self._attempts.running or self._revoked:
            return _NOTHING
        if holder.offset <= older.offset:
            return _NOTHING
        root = older.events[0]
        for event in holder.events:
            if event.held_by is None:
                event.held_by = root
                root.holds.append(event)
        fallen = self._roll_back([holder], now, counts=False)
        ending = self._attempts.ending
        return Actions((), tuple(fallen), tuple(g for g in fallen if g.number in ending))

    def counts_still(self, grant: Grant) -> bool:
        """Whether what an attempt brings still counts; else the grant is old."""
        return grant.number in self._attempts.running

    def begins(self, grant: Grant, now: float | None) -> None:
        """The time limit of an attempt begins now; None: not before this is told again."""
        if grant.number in self._attempts.running and not grant.settle:
            grant.started = math.inf if now is None else now
            self._deadlines.set(grant, grant.started + self.rules.limit(len(grant.events)))

    def ended(self, grant: Grant, now: float) -> None:
        """A cancelled attempt has ended; until then its stream waits. Others need no telling."""
        for name in self._attempts.ended(grant):
            found = self._progress.open.get(name) if isinstance(name, int) else None
            self._attempts.offer_named(name, found)

    def poll(self, now: float) -> Actions:
        """Let time pass: what is to be hurried, rolled back and cancelled now."""
        hurry: list[Grant] = []
        fallen: list[Grant] = []
        while not self._revoked and (item := self._deadlines.pop(now)) is not None:
            if isinstance(item, OpenEvent):
                self._attempts.offer_next(item)
            elif isinstance(item, Grant):
                self.counts.timed_out += len(item.events)
                fallen += self._roll_back([item], now)
            elif isinstance(item, Lane):
                hurried, roots = self._older_open.due(item, now)
                hurry += hurried
                fallen += self._roll_back(roots, now)
        if not fallen and not hurry:
            return _NOTHING
        fallen.sort(key=lambda grant: grant.events[-1].offset, reverse=True)
        ending = self._attempts.ending
        return Actions(
            tuple(grant for grant in hurry if grant.number in self._attempts.running),
            tuple(fallen),
            tuple(grant for grant in fallen if grant.number in ending),
        )

    def _roll_back(self, roots: list[Grant], now: float, *, counts: bool = True) -> list[Grant]:
        """Roll grants back, each of which counts for its events, and what was staged upon them."""
        if not roots:
            return []
        for grant in roots:
            for event in grant.events:
                event.rollbacks += counts
        fallen = self._attempts.withdraw(roots)
        events = sum(len(grant.events) for grant in fallen)
        self.counts.rolled_back += events
        self.counts.cascaded += events - sum(len(grant.events) for grant in roots)
        self._look({event.lane for grant in fallen for event in grant.events}, now)
        self._measure()
        return fallen

    def _look(self, lanes: Iterable[Lane | None], now: float) -> None:
        for lane in lanes if self._waits else ():
            if lane is not None:
                self._older_open.look(lane, now)

    @property
    def due(self) -> float:
        """When `poll` or `next` has something to do though nothing happens; infinite if never."""
        return math.inf if self._revoked else self._deadlines.next


def _touched(grant: Grant) -> Touched | None:
    """What the events of a grant are declared to touch; None if that is not so of one."""
    declared = [event.touches for event in grant.events if event.touches is not None]
    if len(declared) < len(grant.events):
        return None
    return Touched.of(
        itertools.chain.from_iterable(touches.writes for touches in declared),
        itertools.chain.from_iterable(touches.reads for touches in declared),
    )
