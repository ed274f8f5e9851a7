"""A view's ordering tried on what arrived in one partition: by the sequencer, without a handler."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf

from topology.model.event import Event
from topology.sequencer.progress import Progress
from topology.sequencer.sequencer import LAST, Ordering, Step, step
from topology.sequencer.timers import Timers


class Trial:
    """The sequencer's State in memory, with a clock that goes by the events' arrivals.

    What the ring has no room for waits as with `spill()`. known: stream → progress.
    """

    def __init__(self, ordering: Ordering) -> None:
        self.known: dict[str, int | Progress] = {}
        self._ordering = replace(ordering, learn=True, full="spill", drain=LAST, portion=LAST)
        self._timers = Timers()
        self._waiting: dict[str, dict[int, Event]] = {}
        self._closed: list[tuple[int, str]] = []

    def run(self, events: Iterable[Event]) -> Iterator[tuple[int, Step]]:
        """When what was decided, in order, until nothing is due any more (ms)."""
        for event in events:
            # What arrives in the very moment in which a gap is due is in time.
            yield from self._until(event.arrived)
            yield event.arrived, self._step((event,))
        yield from self._until(inf)

    def progress(self, stream: str) -> int | Progress:
        return self.known.get(stream, self._ordering.first)

    def spilled(self, stream: str, first: int, last: int) -> Iterator[Event]:
        waits = self._waiting.get(stream, {})
        return (waits[n] for n in sorted(waits) if first <= n <= last)

    def _until(self, time: float) -> Iterator[tuple[int, Step]]:
        """What is due before a time."""
        closed = self._closed
        while (due := min(self._timers.next, closed[0][0] if closed else inf)) < time:
            yield int(due), self._step((), int(due))

    def _step(self, events: Sequence[Event], now: int | None = None) -> Step:
        """One step whose outcome is kept."""
        result = step(self._ordering, self, self._timers, events, now=now)
        self.known.update(result.changed)
        for event in result.buffered:
            self._waiting.setdefault(event.stream, {})[event.sequence] = event
        for event in result.released:
            waits = self._waiting.get(event.stream)
            if waits is not None:
                waits.pop(event.sequence, None)
                if not waits:
                    del self._waiting[event.stream]
        for (stream, _), due in result.closed.items():
            heapq.heappush(self._closed, (due, stream))
        while now is not None and self._closed and self._closed[0][0] <= now:
            self._forget(*heapq.heappop(self._closed))
        return result

    def _forget(self, due: int, stream: str) -> None:
        """A closed stream is over, unless it was opened again or events wait in it."""
        progress = self.known.get(stream)
        if isinstance(progress, Progress) and progress.closed == due and not progress.waiting:
            del self.known[stream]
