"""What a rebuild says while it runs: how far it is, and about how long it has to go."""

import logging
import time
from collections.abc import Callable

from topology.diagnostics.explain.times import lasting

REPORT_SECONDS = 5.0

log = logging.getLogger("rebuild")


class Progress:
    """The progress of one part of the work. clock: seconds."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.what = what
        self._clock = clock
        self._began = clock()
        self._told: float | None = None
        self._first: int | None = None

    def tell(self, done: int, total: int, more: str = "") -> None:
        """Log a line at first, then now and then. What was done by the first call took no time."""
        now = self._clock()
        if self._first is None:
            self._first = done
        if self._told is not None and now - self._told < REPORT_SECONDS:
            return
        self._told = now
        log.info("%s", self.line(done, total, more))

    def line(self, done: int, total: int, more: str = "") -> str:
        """The line: how much is done, and how long the rest takes if it goes on like this."""
        share = f"{100 * done / total:.0f}%" if total else "100%"
        left = self.left(done, total)
        about = "" if left is None else f", about {lasting(round(left * 1000))} left"
        return f"{self.what}: {share}{about}{f' ({more})' if more else ''}"

    def left(self, done: int, total: int) -> float | None:
        """Seconds left, None while nothing has been done that says so."""
        new = done - (done if self._first is None else self._first)
        if new <= 0 or done >= total:
            return None
        return (self._clock() - self._began) / new * (total - done)
