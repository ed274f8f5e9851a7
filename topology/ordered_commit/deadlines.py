"""The deadlines of attempts, backoffs and waits, in one heap."""

import heapq
import math
from typing import Protocol


class HasDeadline(Protocol):
    """What has a deadline (s), infinite if it waits for none."""

    deadline: float


class Deadlines:
    """At most one deadline for each item; one that was cleared or changed is dropped on the way."""

    __slots__ = ("_heap", "_order", "_waiting")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, HasDeadline]] = []
        self._order = 0
        self._waiting = 0

    @property
    def next(self) -> float:
        """The earliest deadline, infinite if there is none."""
        heap = self._heap
        while heap and heap[0][2].deadline != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def set(self, item: HasDeadline, due: float) -> None:
        """Set the item's deadline, in place of an earlier one."""
        if item.deadline == due:
            return
        self.clear(item)
        if due == math.inf:
            return
        item.deadline = due
        self._order += 1
        self._waiting += 1
        heapq.heappush(self._heap, (due, self._order, item))
        if len(self._heap) > 2 * self._waiting + 64:
            self._heap = [entry for entry in self._heap if entry[2].deadline == entry[0]]
            heapq.heapify(self._heap)

    def clear(self, item: HasDeadline) -> None:
        """The item waits no longer."""
        if item.deadline != math.inf:
            item.deadline = math.inf
            self._waiting -= 1

    def pop(self, now: float) -> HasDeadline | None:
        """The item of the earliest deadline that is due by `now`, or None."""
        if self.next > now:
            return None
        item = heapq.heappop(self._heap)[2]
        self.clear(item)
        return item
