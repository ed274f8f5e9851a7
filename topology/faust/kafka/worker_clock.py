"""What time it is for a worker: a wall clock that neither jumps nor goes back while it lives.

A worker goes by the broker's clock (`topology.faust.kafka.broker.clock`), so that those of a group
agree, whatever their machines' clocks say. Where it has only its machine's, and that is set, an
hour forward or back, the worker's own goes on as before, and comes nearer to it by a thousandth of
the time that passes. So a duration is at most that much shorter or longer than it should be.
"""

import time
from collections.abc import Callable

SLEW = 0.001
"""Seconds that are corrected in one second at most."""


def _steady() -> float:
    """Seconds that nobody sets; those in which the machine sleeps count too, where it tells."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class Clock:
    """Calling it gives the ms since 1970. wall, steady: seconds, of clocks that may and may not
    jump."""

    def __init__(
        self,
        wall: Callable[[], float] = lambda: time.time(),
        steady: Callable[[], float] = _steady,
    ) -> None:
        self._wall, self._steady = wall, steady
        self._now, self._at = wall(), steady()
        self.agreed = False
        """Whether it goes by another clock than the machine's."""

    def go_by(self, now: float) -> float:
        """Go by another clock than the machine's from here on, which is at `now` (s) now.

        Returns how many seconds the clock was ahead of it. Only before anything is timed: it jumps.
        """
        at = self._steady()
        ahead = self() / 1000 - now
        self._wall = lambda: now + self._steady() - at
        self._now, self._at, self.agreed = now, at, True
        return ahead

    def __call__(self) -> int:
        at = self._steady()
        passed = max(0.0, at - self._at)
        wrong = self._wall() - (self._now + passed)
        most = passed * SLEW
        self._now += passed + min(max(wrong, -most), most)
        self._at = at
        return int(self._now * 1000)


wall = Clock()
"""The one clock of this process."""
