"""Which event is begun next: the oldest, any, or by a function."""

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import Literal

from topology.ordered_commit.values import OpenEvent


class Startable:
    """The events that may be begun, as far as is known: who pops one looks again."""

    __slots__ = ("_by_age", "_chosen", "_count", "_first", "_key")

    def __init__(self, start: Literal["arrival", "any"] | Callable[[OpenEvent], float]) -> None:
        self._by_age: list[tuple[int, OpenEvent]] = []
        self._chosen: list[tuple[float, int, OpenEvent]] = []
        self._first: deque[OpenEvent] | None = deque() if start == "any" else None
        self._key = start if callable(start) else None
        self._count = 0

    def push(self, event: OpenEvent) -> None:
        """The event may perhaps be begun."""
        if event.offered:
            return
        event.offered = True
        self._count += 1
        if self._first is not None:
            self._first.append(event)
        elif self._key is not None:
            heapq.heappush(self._chosen, (_rank(self._key, event), event.offset, event))
        heapq.heappush(self._by_age, (event.offset, event))
        if len(self._by_age) > 2 * self._count + 64:
            self._drop_stale()

    def pop(self, oldest: bool) -> OpenEvent | None:
        """The event to be begun next, or the oldest one; None if there is none."""
        while True:
            if oldest or (self._first is None and self._key is None):
                if not self._by_age:
                    return None
                event = heapq.heappop(self._by_age)[1]
            elif self._first is not None:
                if not self._first:
                    return None
                event = self._first.popleft()
            else:
                if not self._chosen:
                    return None
                event = heapq.heappop(self._chosen)[2]
            if event.offered:
                event.offered = False
                self._count -= 1
                return event

    def _drop_stale(self) -> None:
        """Forget what was popped in another order."""
        live = {offset: event for offset, event in self._by_age if event.offered}
        self._by_age = sorted(live.items(), key=lambda entry: entry[0])
        self._chosen = [entry for entry in self._chosen if entry[2].offered]
        heapq.heapify(self._chosen)
        if self._first is not None:
            self._first = deque(event for event in self._first if event.offered)


def _rank(key: Callable[[OpenEvent], float], event: OpenEvent) -> float:
    """The function's number; last of all if it fails."""
    try:
        rank = float(key(event))
    except BaseException:  # nobody cancels a plain function
        return math.inf
    return math.inf if rank != rank else rank
