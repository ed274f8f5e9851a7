"""Workers of one group, whose partitions of a source are read in the order of their times.

Each worker commits with its offsets the time that a partition has reached, and looks now and then
at what all have committed. A look is old at once, so that no worker may be bound to it: whoever is
ahead runs freely between two looks, and waits when one finds it too far ahead.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from topology.engine.partition.alignment import PATIENCE

LONGEST = 60_000
"""Milliseconds for which one partition is waited for, though it moves on: its clock may be wrong,
or it has a day's records where others have an hour's."""


@dataclass(slots=True)
class _Behind:
    """A partition that is too far behind: since when (ms), and when it moved on last."""

    time: float
    since: int
    moved: int
    passed: bool = False


class GroupAlignment:
    """Says at each look whether a worker is too far ahead of the others.

    Of all workers the slowest never waits, so that they do not wait for each other. How far one may
    be ahead is `bound`, or what it has read itself since its last look if that is more: workers of
    equal speed that are not quite at the same point do not stop each other in turns.

    Args:
        bound: how far ahead of the slowest other partition a worker may be (ms of records' times).

    Attributes:
        passed: how often a partition was not waited for any longer.
    """

    def __init__(self, bound: float) -> None:
        self._bound = bound
        self._reached = math.inf
        self._behind: dict[Hashable, _Behind] = {}
        self.passed = 0

    def is_ahead(self, own: Mapping[Any, float], others: Mapping[Any, float], now: int) -> bool:
        """Whether the worker is to wait, by what a look finds.

        Args:
            own: Its partitions that have something left to read → the time they have reached (ms).
            others: Those of other workers, in the same way; -inf where one has not begun.
            now: The time of the look (ms).
        """
        reached, before = min(own.values(), default=-math.inf), self._reached
        self._reached = reached
        slack = max(self._bound, reached - before) if before > -math.inf else self._bound
        slow = {each: time for each, time in others.items() if time + slack < reached}
        self._behind = {each: self._behind[each] for each in slow if each in self._behind}
        waits = [self._waits_for(each, time, now) for each, time in slow.items()]
        return any(waits)

    def _waits_for(self, partition: Hashable, time: float, now: int) -> bool:
        behind = self._behind.setdefault(partition, _Behind(time, now, now))
        too_long = now - behind.since >= LONGEST
        if time != behind.time:
            behind.time, behind.moved = time, now
            behind.passed = behind.passed and too_long
        if not too_long and now - behind.moved < PATIENCE:
            return True
        self.passed += not behind.passed
        behind.passed = True
        return False
