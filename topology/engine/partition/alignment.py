"""Partitions of one source, read in the order of their records' times, more or less.

Messages of a stream may be in any partition of a source that is not keyed. Where they lie in
wait, after an outage, a partition that is read ahead of the others fills the streams' buffers with
events whose predecessors are in partitions that are read later.
"""

import math
from collections.abc import Hashable

PATIENCE = 5_000
"""Milliseconds for which a partition that does not move on is waited for."""
BACK = 60_000
"""Milliseconds by which a time goes back if the one before it was wrong, and not just early."""


class _Head:
    """Where a partition is: no record that it still has to bring is older than `time`, if its
    records are in the order of their times. since: when that was seen first (ms)."""

    __slots__ = ("since", "time")

    def __init__(self, time: float, since: int) -> None:
        self.time, self.since = time, since


class Alignment:
    """Says which partitions of a source may go on, and which are too far ahead.

    A partition that has nothing to read holds nobody up. Nor does one that does not move on, as its
    clock is wrong or its broker away.

    Args:
        bound: how far ahead of the slowest partition another one may be (ms of records' times).

    Attributes:
        passed: how often one was not waited for any longer, since it did not move on.
    """

    def __init__(self, bound: float) -> None:
        self._bound = bound
        self._heads: dict[Hashable, _Head] = {}
        self._passed: set[Hashable] = set()
        self._overtaken: set[tuple[Hashable, Hashable]] = set()
        self.passed = 0

    def note(self, partition: Hashable, time: float | None, now: int) -> None:
        """A partition brings nothing older than a time (ms); None: it has nothing to read now."""
        head = self._heads.get(partition)
        if head is None:
            self._heads[partition] = _Head(math.inf if time is None else time, now)
        elif time is None:
            head.time = math.inf
        elif not head.time - BACK <= time <= head.time:
            head.time, head.since = time, now
            self._passed.discard(partition)

    def leave(self, partition: Hashable) -> None:
        """A partition is read here no longer."""
        self._heads.pop(partition, None)
        self._passed.discard(partition)
        self._overtaken = {pair for pair in self._overtaken if partition not in pair}

    def overtake(self, partition: Hashable, time: float) -> None:
        """A partition has waited for long: it waits for those that are behind no longer until they
        have caught up with it.

        Args:
            partition: The one that has waited.
            time: That of the records with which it goes on (ms).
        """
        self._overtaken |= {
            (partition, other)
            for other, head in self._heads.items()
            if other != partition and head.time + self._bound < time
        }

    def may_take(self, partition: Hashable, time: float, now: int) -> bool:
        """Whether a partition may go on with records from this time on (ms)."""
        slowest = math.inf
        for other, head in self._heads.items():
            if other == partition or head.time >= slowest:
                continue
            if (partition, other) in self._overtaken:
                if head.time + self._bound < time:
                    continue
                self._overtaken.discard((partition, other))
            if head.since + PATIENCE <= now:
                if other not in self._passed and head.time + self._bound < time:
                    self._passed.add(other)
                    self.passed += 1
                continue
            slowest = head.time
        return time <= slowest + self._bound
