"""How far a long look is, on standard error: on a terminal one line that changes, else a line now
and then, without control characters."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

EVERY = 10.0
"""Seconds from one line to the next where nobody looks at a terminal."""
OFTEN = 0.2
"""The same on a terminal."""


class Ticker:
    """what: the command's name. total: how many records there are. clock: seconds. unit: what they
    are."""

    def __init__(
        self,
        what: str,
        total: int,
        out: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        unit: str = "records",
    ) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._out = sys.stderr if out is None else out
        self._clock = clock
        self._terminal = self._out.isatty()
        self._began = self._told = clock()
        self._done = 0
        self._width = 0

    def add(self, done: int) -> None:
        """So many records more are done."""
        self._done += done
        now = self._clock()
        if now - self._told < (OFTEN if self._terminal else EVERY):
            return
        self._told = now
        text = f"{self._what}: {self._done:,} of {self._total:,} {self._unit}"
        if 0 < self._done <= self._total:
            left = (now - self._began) * (self._total - self._done) / self._done
            text += f", {self._done / self._total:.0%}, about {left:,.0f} s left"
        self._write(text)

    def end(self) -> None:
        """Leave nothing on a terminal."""
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._out.flush()

    def _write(self, text: str) -> None:
        if self._terminal:
            self._out.write("\r" + text.ljust(self._width))
            self._width = max(self._width, len(text))
        else:
            self._out.write(text + "\n")
        self._out.flush()
