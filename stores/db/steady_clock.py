"""Time that goes on by itself while a process lives, whatever becomes of the wall's."""

import time
from collections.abc import Callable


def elapsed() -> float:
    """Seconds that nobody sets; those in which the machine is suspended count too.

    Leases go by it: on Linux, `time.monotonic` stands still while a machine sleeps, and whoever has
    handed a lease out, on another machine, does not wait for that.
    """
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class SteadyClock:
    """Seconds since 1970, as `wall` said when it was first asked; from there on by this process."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._ahead: float | None = None

    def __call__(self) -> float:
        if self._ahead is None:
            self._ahead = self._wall() - elapsed()
        return self._ahead + elapsed()


steady = SteadyClock()
"""By this machine's clock, as it was when this process began."""
steady()
