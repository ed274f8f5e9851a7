"""Time that goes on by a monotonic clock while a process lives, whatever becomes of the wall's."""

import time
from collections.abc import Callable


class SteadyClock:
    """Seconds since 1970, as `wall` said when it was first asked; from there on by this process."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._ahead: float | None = None

    def __call__(self) -> float:
        if self._ahead is None:
            self._ahead = self._wall() - time.monotonic()
        return self._ahead + time.monotonic()


steady = SteadyClock()
"""By this machine's clock, as it was when this process began."""
steady()
