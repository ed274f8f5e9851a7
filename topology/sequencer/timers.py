"""The deadlines of gaps, as a heap: an index over the streams that wait."""

import heapq
import math


class Timers:
    """One deadline per stream (ms). An early one may be asked for; who pops it looks again."""

    __slots__ = ("_due", "_heap", "clock")

    def __init__(self) -> None:
        self.clock = 0
        """The latest time that a step heard of (ms)."""
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    @property
    def next(self) -> float:
        """The earliest deadline, infinite if there is none."""
        heap = self._heap
        while heap and self._due.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def add(self, due: int, stream: str) -> None:
        """Set the deadline of a stream."""
        self._due[stream] = due
        heapq.heappush(self._heap, (due, stream))
        if len(self._heap) > 2 * len(self._due) + 64:
            self._heap = [(due, stream) for stream, due in self._due.items()]
            heapq.heapify(self._heap)

    def discard(self, stream: str) -> None:
        """The stream waits no longer."""
        self._due.pop(stream, None)

    def pop(self, now: int) -> str | None:
        """The stream of the earliest deadline that is due by `now`, or None."""
        if self.next > now:
            return None
        _, stream = heapq.heappop(self._heap)
        del self._due[stream]
        return stream

    def __contains__(self, stream: str) -> bool:
        """Whether a stream has a deadline."""
        return stream in self._due

    def __len__(self) -> int:
        return len(self._due)
