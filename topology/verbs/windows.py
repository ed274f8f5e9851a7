"""Windows over a stream's own time: which an event belongs to, and when a window is over.

Times are in milliseconds since 1970 here; users give seconds, or datetimes.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Protocol

from topology.declaration.seconds import LONGEST, is_seconds
from topology.model.errors import DeclarationError, HandlerError

MOST = 1_000
"""Windows that one event may be in."""
_FIRST, _LAST = -5e10, 1e11
"""Seconds since 1970 of which a window, too, is in the years 1 to 9999."""


class Windows(Protocol):
    """What assigns events to windows."""

    @property
    def merging(self) -> bool:
        """Whether an event may make one window of several: a session."""
        ...

    def of(self, time: int) -> list[tuple[int, int]]:
        """Say which windows have a time.

        Args:
            time: ms since 1970.

        Returns:
            (start, end) of each in ms; the end is not in it any more.
        """
        ...


@dataclass(frozen=True, slots=True)
class Hopping:
    """Windows of `size` ms that begin every `every` ms, `offset` ms after 1970."""

    size: int
    every: int
    offset: int = 0
    merging: bool = False

    def __str__(self) -> str:
        if self.every == self.size:
            return f"tumbling({self.size / 1000:.12g})"
        return f"hopping({self.size / 1000:.12g}, {self.every / 1000:.12g})"

    def of(self, time: int) -> list[tuple[int, int]]:
        """(start, end) of each window that has this time, the earliest first."""
        last = time - (time - self.offset) % self.every
        if self.every == self.size:
            return [(last, last + self.size)]
        starts = range(last, time - self.size, -self.every)
        return [(start, start + self.size) for start in reversed(starts)]


@dataclass(frozen=True, slots=True)
class Session:
    """Windows that end when nothing has happened for `gap` ms."""

    gap: int
    merging: bool = True

    def __str__(self) -> str:
        return f"session({self.gap / 1000:.12g})"

    def of(self, time: int) -> list[tuple[int, int]]:
        """The window of an event alone."""
        return [(time, time + self.gap)]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def tumbling(size: float, offset: float = 0) -> Windows:
    """Windows side by side: each event is in one.

    Args:
        size: seconds that each lasts.
        offset: seconds after midnight (UTC, 1970) at which one begins.

    Raises:
        DeclarationError: it is no such number.
    """
    return hopping(size, size, offset)


def hopping(size: float, every: float, offset: float = 0) -> Windows:
    """Windows that overlap: each event is in `size / every` of them.

    Args:
        size: seconds that each lasts.
        every: seconds from the beginning of one to that of the next, at most `size`.
        offset: seconds after midnight (UTC, 1970) at which one begins.

    Raises:
        DeclarationError: a number is wrong, or an event would be in too many windows.
    """
    long, step = _milliseconds("size", size), _milliseconds("every", every)
    if not long // MOST <= step <= long:
        raise DeclarationError(
            f"windows of {size} s every {every} s: `every` is at most `size`, and an event is in "
            f"{MOST} windows at most"
        )
    return Hopping(long, step, _milliseconds("offset", offset) if offset else 0)


def session(gap: float) -> Windows:
    """Windows that last while something happens.

    Args:
        gap: seconds without an event that end one.

    Raises:
        DeclarationError: it is no such number.
    """
    return Session(_milliseconds("gap", gap))


def milliseconds_of(time: Any) -> int:
    """An event's time, as a user's function gives it, in ms since 1970.

    Raises HandlerError for anything but seconds since 1970 and datetimes with a time zone.
    """
    if isinstance(time, datetime):
        try:
            found = (time - _EPOCH) // _MILLISECOND
        except TypeError:
            raise HandlerError(
                f"the time {time} has no time zone, so that no moment is meant: add one in time=…"
            ) from None
        if _FIRST * 1000 <= found < _LAST * 1000:
            return found
    if isinstance(time, bool) or not isinstance(time, int | float) or not _FIRST <= time < _LAST:
        raise HandlerError(
            f"time=… returned {time!r:.100}; let it return a datetime with a time zone, or seconds "
            "since 1970, from the year 386 to 5138"
        )
    return math.floor(round(time * 1000, 3))


@lru_cache(maxsize=4096)
def moment(milliseconds: int) -> datetime:
    """A time as rows show it, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _milliseconds(what: str, seconds: float) -> int:
    found = round(seconds * 1000) if is_seconds(seconds) else 0
    if not found or abs(found - seconds * 1000) > 1e-6:
        raise DeclarationError(
            f"windows: {what}={seconds!r}; give a number of seconds, in whole milliseconds, from "
            f"0.001 to {LONGEST:.0f}"
        )
    return found
