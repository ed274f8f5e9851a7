"""How many records a step takes: more of them in a backlog, as long as steps are quick."""

import time
from collections.abc import Callable

from topology.faust.kafka.reader import USUAL

QUICK, SLOW = 0.5, 2.0
"""Seconds from one step to the next below which it may take more, and above which less."""
CAUGHT_UP = 500
"""Fewer records than this say that there is no backlog."""


class Pace:
    """Chooses the size of a partition's steps.

    What a step does once for a stream, as its row of progress, costs less the more of the stream's
    events are in it, and what comes late waits for less than a step. But nothing else of the worker
    runs during a step, so that a slow handler must not be given more at once.

    Args:
        most: The most records of a step.
        clock: Seconds that only grow.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._size = min(USUAL, most)
        self._began: float | None = None

    def next(self) -> int:
        """The most records of the step that begins now; the one before is done."""
        if self._began is not None:
            took, self._began = self._clock() - self._began, None
            if took < QUICK:
                self._size = min(2 * self._size, self._most)
            elif took > SLOW:
                self._size = max(self._size // 2, min(USUAL, self._most))
        return self._size

    def took(self, records: int) -> None:
        """So many were there for it."""
        if records >= self._size:
            self._began = self._clock()
        elif records < CAUGHT_UP:
            self._size = min(USUAL, self._most)
