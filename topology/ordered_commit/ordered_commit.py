"""The ordering manager of one partition: events in, grants out, turns to be committed."""

import itertools
from collections.abc import Iterable, Iterator
from enum import Enum

from topology.ordered_commit.offset_ranges import OffsetRanges
from topology.ordered_commit.rules import CommitRules
from topology.ordered_commit.values import Actions, CommitCounts, Grant, Touched


class FailureOutcome(Enum):
    """What comes of a failed attempt."""

    OLD = "old"
    """The grant is old: drop everything."""
    RETRIED = "retried"
    """The attempt is given up; `next` grants another one after the backoff."""
    UNSETTLED = "unsettled"
    """The error policy decides under this grant, which stays open: see `OrderedCommit.failed`."""


class OrderedCommit:
    """Decides who begins what, and when whose effects are committed. Times are in seconds.

    A runtime drives it: `arrive` for each message; `next` for each free worker; `finished` or
    `failed` when an attempt ends; after these and at `due`, `poll`, whose actions it carries out;
    then `take_commits`, one commit unit of the effects of these grants in that order together with
    `progress()`, and `committed`. Not safe for threads: the partition's owner calls it.
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
        self.position = position
        """The offset from which on something may be open, as of the last `committed`."""
        self.done = OffsetRanges() if done is None else done
        """What is done beyond the position, as of the last `committed`."""
        self.counts = CommitCounts()
        self._numbers = itertools.count(1) if numbers is None else numbers

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
        raise NotImplementedError

    @property
    def room(self) -> bool:
        """Whether intake goes on; after a pause, once a quarter of the limits is free again."""
        raise NotImplementedError

    def reached(self, position: int) -> None:
        """The reader is at `position`: what lies before it and did not arrive is no event."""
        raise NotImplementedError

    def lost(self, first: int, end: int) -> int:
        """Retention has eaten the offsets from `first` up to before `end`.

        Returns:
            How many of them were neither done nor in hand: log it. They are counted and passed.
        """
        raise NotImplementedError

    # work

    def next(self, now: float) -> Grant | None:
        """What a free worker does next; None if there is nothing that may be begun."""
        raise NotImplementedError

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
        raise NotImplementedError

    def failed(self, grant: Grant, now: float) -> FailureOutcome:
        """An attempt has failed.

        Returns:
            What comes of it. If it is UNSETTLED, or if the grant says `settle`, the error policy
            decides, and the runtime calls `finished` with what it makes of the event (a line in
            the error log, a parked row), or `retry`, or nothing, which halts everything behind it.
        """
        raise NotImplementedError

    def retry(self, grant: Grant, delay: float, now: float) -> bool:
        """The error policy has an unsettled event handled again after `delay` seconds.

        Returns:
            False if the grant is old.
        """
        raise NotImplementedError

    def ended(self, grant: Grant, now: float) -> None:
        """A cancelled attempt has ended; until then its stream waits. Others need no telling."""
        raise NotImplementedError

    def poll(self, now: float) -> Actions:
        """Let time pass: what is to be hurried, rolled back and cancelled now."""
        raise NotImplementedError

    @property
    def due(self) -> float:
        """When `poll` or `next` has something to do though nothing happens; infinite if never."""
        raise NotImplementedError

    # commits

    def take_commits(self, now: float) -> list[Grant]:
        """The finished grants whose turn it is, in the order of commit, for one unit.

        Empty until `committed` or `commit_failed` is told of those taken before.
        """
        raise NotImplementedError

    def progress(self) -> tuple[int, OffsetRanges]:
        """The position and what is done beyond it, once the taken grants are durable."""
        raise NotImplementedError

    def committed(self, now: float) -> None:
        """The unit of the taken grants is durable."""
        raise NotImplementedError

    def commit_failed(self, now: float, failed: Grant | None = None) -> tuple[Grant, ...]:
        """The unit of the taken grants was not made, and what they staged is still there.

        Args:
            now: the time (s).
            failed: the grant whose effects could not be committed: it is rolled back.

        Returns:
            The grants to be rolled back, newest first, as in `Actions.roll_back`.
        """
        raise NotImplementedError

    # the end

    def revoke(self) -> tuple[Grant, ...]:
        """The partition is taken away: all open grants are old, and nothing more is granted.

        Returns:
            The grants to be cancelled or rolled back, newest first.
        """
        raise NotImplementedError

    @property
    def still_running(self) -> tuple[Grant, ...]:
        """Revoked or cancelled attempts that have not ended."""
        raise NotImplementedError

    @property
    def in_hand(self) -> int:
        """Open events: waiting, in work, staged."""
        raise NotImplementedError
