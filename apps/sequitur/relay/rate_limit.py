"""Lines of a log that would come with every message: each is told now and then."""

import time

EVERY = 60.0
"""Seconds between two lines about the same thing."""
THINGS = 1_000
"""Things that are known apart; when there are more, all are told anew."""


class RateLimit:
    """Says whether it is time to tell something again. every: seconds."""

    def __init__(self, every: float = EVERY) -> None:
        self._every = every
        self._told: dict[str, float] = {}

    def __call__(self, thing: str) -> bool:
        now = time.monotonic()
        if thing in self._told and now - self._told[thing] < self._every:
            return False
        if len(self._told) >= THINGS:
            self._told.clear()
        self._told[thing] = now
        return True

    def clear(self) -> None:
        """Tell everything at once when it comes again."""
        self._told.clear()
