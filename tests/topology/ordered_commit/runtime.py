"""A runtime in memory: a log with gaps, attempts that outlive their grants, durable units."""

import itertools
import math
from dataclasses import dataclass, field

from topology.ordered_commit import (
    CommitRules,
    FailureOutcome,
    Grant,
    OffsetRanges,
    OrderedCommit,
    Touched,
)


@dataclass
class Logged:
    """An event of the log. key: what it touches besides its stream."""

    offset: int
    stream: str | None
    key: str

    @property
    def touches(self) -> Touched:
        return Touched.of([("keys", self.key)])


@dataclass
class Attempt:
    """An attempt that really runs, whether or not its grant still counts.

    seen: by stream, the events whose effects it saw when it began.
    """

    core: OrderedCommit
    grant: Grant
    seen: dict[str, tuple[int, ...]] = field(default_factory=dict)


class Runtime:
    """Drives an OrderedCommit as a worker does, and checks every step against the promises."""

    def __init__(
        self, rules: CommitRules, workers: int = 3, *, declared: bool = True, unit: float = math.inf
    ) -> None:
        self.rules = rules
        self.workers = workers
        self.unit = unit
        self.declared = declared
        self.now = 0.0
        self.log: dict[int, Logged] = {}
        self.end = 0
        self.fed = 0
        self.attempts: dict[int, Attempt] = {}
        self.unsettled: dict[int, Attempt] = {}
        self.staged: dict[int, Attempt] = {}
        self.commits: list[int] = []
        self.lost: set[int] = set()
        self.log_start = self.told = 0
        self.position, self.ranges = 0, OffsetRanges().encode()
        self.numbers = itertools.count(1)
        self.in_unit: list[Grant] = []
        self.core = self._build(())

    def _build(self, still_running: tuple[Grant, ...]) -> OrderedCommit:
        self.fed = self.position
        core = OrderedCommit(
            self.rules,
            OffsetRanges.decode(self.ranges),
            self.position,
            numbers=self.numbers,
            still_running=still_running,
        )
        if self.log_start > self.position:
            self.told = core.lost(self.position, self.log_start)
            self.fed = self.log_start
        return core

    # the log

    def publish(self, stream: str | None, key: str = "k", gap: int = 0) -> None:
        offset = self.end + gap
        self.log[offset] = Logged(offset, stream, key)
        self.end = offset + 1

    def feed(self) -> None:
        for offset in sorted(offset for offset in self.log if offset >= self.fed):
            if not self.core.room:
                return
            event = self.log[offset]
            touches = event.touches if self.declared else None
            new = self.core.arrive(offset, event.stream, "kind", 1, self.now, touches)
            assert new == (offset not in self.commits), "left out if and only if it is done"
            self.fed = offset + 1
            assert self.core.in_hand <= self.rules.max_events

    # work

    def begin(self) -> bool:
        running = [each for each in self.attempts.values() if each.core is self.core]
        if len(running) >= self.workers:
            return False
        grant = self.core.next(self.now)
        if grant is None:
            return False
        self._check_grant(grant)
        attempt = Attempt(self.core, grant)
        for stream in {event.stream for event in grant.events if event.stream is not None}:
            attempt.seen[stream] = self._seen(stream)
        self.attempts[grant.number] = attempt
        return True

    def _check_grant(self, grant: Grant) -> None:
        busy = {
            event.stream if self.rules.within_stream == "sequence" else event.offset
            for attempt in (*self.attempts.values(), *self.unsettled.values())
            for event in attempt.grant.events
        }
        offsets = {
            event.offset for attempt in self.attempts.values() for event in attempt.grant.events
        }
        for event in grant.events:
            assert event.stream is None or event.stream not in busy, "side by side"
            assert event.offset not in offsets, "an event beside itself"
            assert event.offset not in self.commits
        assert len(grant.events) <= self.rules.batch
        handed = [event.offset for event in grant.events]
        for stream in {event.stream for event in grant.events}:
            own = [event.offset for event in grant.events if event.stream == stream]
            assert own == sorted(own) or stream is None
        assert len(set(handed)) == len(handed)

    def _seen(self, stream: str) -> tuple[int, ...]:
        """The stream's events whose effects a new attempt sees, in order: done, or staged."""
        staged = [
            event.offset
            for attempt in self.staged.values()
            for event in attempt.grant.events
            if event.stream == stream
        ]
        done = [offset for offset in self.commits if self.log[offset].stream == stream]
        return (*done, *sorted(staged))

    def finish(self, attempt: Attempt) -> bool:
        number = attempt.grant.number
        self.attempts.pop(number, None)
        self.unsettled.pop(number, None)
        touched = Touched.of(("keys", self.log[event.offset].key) for event in attempt.grant.events)
        counts = attempt.core.finished(attempt.grant, touched, 1, self.now)
        if counts:
            assert attempt.core is self.core
            self.staged[number] = attempt
        return counts

    def fail(self, attempt: Attempt) -> FailureOutcome:
        outcome = attempt.core.failed(attempt.grant, self.now)
        self.attempts.pop(attempt.grant.number, None)
        self.unsettled.pop(attempt.grant.number, None)
        if outcome is FailureOutcome.UNSETTLED:
            self.unsettled[attempt.grant.number] = attempt
        return outcome

    def retry(self, attempt: Attempt, delay: float) -> None:
        self.attempts.pop(attempt.grant.number, None)
        self.unsettled.pop(attempt.grant.number, None)
        attempt.core.retry(attempt.grant, delay, self.now)

    def stop(self, attempt: Attempt) -> None:
        """A cancelled attempt ends without a result."""
        del self.attempts[attempt.grant.number]
        attempt.core.ended(attempt.grant, self.now)
        if attempt.core is not self.core:
            self.core.ended(attempt.grant, self.now)

    def counts(self, attempt: Attempt) -> bool:
        """Whether the attempt's grant is still open."""
        alive = attempt.core is self.core
        return alive and attempt.grant not in self.core.still_running

    def poll(self) -> None:
        actions = self.core.poll(self.now)
        newest = [grant.events[-1].offset for grant in actions.roll_back]
        assert newest == sorted(newest, reverse=True), "compensations run newest first"
        assert set(actions.cancel) <= set(actions.roll_back)
        assert all(grant.number in self.attempts for grant in actions.cancel if not grant.settle)
        self._drop(actions.roll_back, {grant.number for grant in actions.cancel})
        assert all(grant.hurried for grant in actions.hurry)

    def _drop(self, grants: tuple[Grant, ...], running: set[int]) -> None:
        for grant in grants:
            if grant.number in self.unsettled:
                attempt = self.unsettled.pop(grant.number)
                attempt.core.ended(grant, self.now)
            elif grant.number in self.staged:
                del self.staged[grant.number]
            else:
                assert grant.number in self.attempts
                assert grant.number in running

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.poll()

    # commits

    def take(self) -> None:
        if not self.in_unit:
            self.in_unit = self.core.take_commits(self.now, self.unit)
        else:
            assert self.core.take_commits(self.now) == []

    def make_durable(self) -> None:
        """The unit is durable; whether or not the worker lives to hear of it."""
        if not self.in_unit:
            return
        position, done = self.core.progress()
        for grant in self.in_unit:
            attempt = self.staged.pop(grant.number)
            for stream, seen in attempt.seen.items():
                if self.rules.within_stream == "parallel":
                    continue
                assert self._done_of(stream) == seen, "it ran on state that was not committed"
            for event in grant.events:
                assert event.offset not in self.commits, "committed twice"
                self.commits.append(event.offset)
        self.in_unit = []
        self._note(position, done)

    def _note(self, position: int, done: OffsetRanges) -> None:
        """So far it is durably done."""
        self.position, self.ranges = position, done.encode()
        for offset in self.log:
            is_done = offset < position or offset in done
            assert is_done == (offset in self.commits or offset in self.lost), offset

    def _done_of(self, stream: str) -> tuple[int, ...]:
        return tuple(offset for offset in self.commits if self.log[offset].stream == stream)

    def commit(self) -> None:
        self.take()
        if self.in_unit:
            self.make_durable()
            self.core.committed(self.now)
            assert self.core.position >= self.position

    def break_unit(self, failing: int) -> None:
        """The database refuses the effects of one of the unit's grants."""
        self.take()
        if self.in_unit:
            failed = self.in_unit[failing % len(self.in_unit)]
            self.in_unit = []
            fallen = self.core.commit_failed(self.now, failed)
            assert failed in fallen
            self._drop(fallen, {grant.number for grant in self.core.still_running})

    # the end

    def crash(self) -> None:
        """The process dies with its attempts; another one begins from what is durable."""
        self.attempts.clear()
        self.unsettled.clear()
        self.staged.clear()
        self.in_unit = []
        self.core = self._build(())

    def revoke(self) -> None:
        """The partition goes and comes back to this process; attempts in threads go on."""
        for grant in self.core.revoke():
            if grant.number in self.unsettled:
                self.core.ended(grant, self.now)
        self.unsettled.clear()
        self.staged.clear()
        assert self.core.next(self.now) is None
        # The reader goes on for a while, and a unit may still say how far it is.
        for offset in [offset for offset in self.log if offset >= self.fed]:
            assert not self.core.arrive(offset, self.log[offset].stream, "kind", 1, self.now)
        self.core.reached(self.end)
        assert self.core.lost(self.position, self.end + 1) == 0
        if not self.in_unit:
            self._note(*self.core.progress())
        self.in_unit = []
        self.core = self._build(self.core.still_running)

    def eat(self, upto: int) -> None:
        """Retention eats the log while no worker runs."""
        done = OffsetRanges.decode(self.ranges)
        self.log_start = max(self.log_start, min(upto, self.end))
        gone = [offset for offset in self.log if self.position <= offset < self.log_start]
        self.lost.update(offset for offset in gone if offset not in done)
        self.told = 0
        self.crash()
        assert self.told >= len([offset for offset in gone if offset not in done])
        assert self.core.position >= self.log_start

    def drain(self) -> None:
        """Handlers succeed from now on: everything is committed in the end."""
        for _ in range(50 + 20 * len(self.log)):
            self.feed()
            for attempt in list(self.attempts.values()):
                if self.counts(attempt):
                    self.finish(attempt)
                else:
                    self.stop(attempt)
            for attempt in list(self.unsettled.values()):
                self.finish(attempt)
            self.commit()
            while self.begin():
                pass
            if len(self.commits) + len(self.lost) == len(self.log):
                return
            self.poll()
            if not self.attempts:
                self.now = max(self.now, min(self.core.due, self.now + 100.0))
                self.poll()
        raise AssertionError(f"stuck: {sorted(set(self.log) - set(self.commits) - self.lost)}")
