"""Whether a worker that has ended is started again, and when."""

FIRST = 1.0
"""Seconds before it is started again; doubles with each death in a row."""
STEADY = 60.0
"""Seconds of life after which a death is the first of a row."""
MOST = 5
"""Deaths in a row after which no more is tried."""


class Restarts:
    """Counts the deaths of a worker that come one soon after the other."""

    def __init__(self) -> None:
        self.in_a_row = 0

    def after(self, lived: float) -> float | None:
        """It has ended by itself: seconds until it is started again; None if it is given up.

        Args:
            lived: seconds since its start.
        """
        self.in_a_row = 1 if lived >= STEADY else self.in_a_row + 1
        return None if self.in_a_row >= MOST else FIRST * 2.0 ** (self.in_a_row - 1)
