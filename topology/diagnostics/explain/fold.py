"""A changelog brought down to the rows that a question needs, so that memory stays bounded."""

from collections.abc import Callable
from functools import lru_cache

from topology.declaration.lanes import joined_lane
from topology.engine.state.rows import (
    COUNTS,
    LATENESS,
    NOTES,
    POSITIONS,
    buffer_key,
    late_key,
    progress_key,
    split_buffer_key,
    without_state,
)

BYTES = 64 << 20
"""Bytes of waiting events that are kept; of what comes beyond, all but the bodies is."""

Wanted = Callable[[bytes, bytes], bool]
"""(key, value): whether the row is needed."""

_OWN = frozenset((COUNTS, LATENESS, POSITIONS))


def _own(key: bytes) -> bool:
    return key in _OWN or key[:1] == NOTES[0]


_KEYS = len(buffer_key("", 0))


class Fold:
    """The last row of each key that is wanted; a row that is not wanted any more is gone."""

    def __init__(self, wanted: Wanted, room: int = BYTES) -> None:
        self.rows: dict[bytes, bytes] = {}
        self._wanted = wanted
        self._room = room

    def take(self, key: bytes, value: bytes | None) -> None:
        """The next record of the changelog."""
        before = self.rows.pop(key, None)
        if before is not None:
            self._room += len(before)
        if value is None or not self._wanted(key, value):
            return
        if self._room < len(value) and key[:1] == b"b":
            value = value[: value.index(b"\n") + 1]
        self._room -= len(value)
        self.rows[key] = value


@lru_cache(64)
def of_stream(stream: str) -> Wanted:
    """What there is of one stream, and of the view as a whole; the same one when asked again."""
    progress, waits = progress_key(stream), (buffer_key(stream, 0)[:-8], late_key(stream, 0)[:-8])
    size = len(waits[0]) + 8

    def wanted(key: bytes, value: bytes) -> bool:
        return key == progress or _own(key) or (len(key) == size and key.startswith(waits))

    return wanted


@lru_cache(64)
def of_lanes(stream: str) -> Wanted:
    """What there is of all lanes of one stream, and of the view; the same one when asked again."""
    lane = joined_lane(stream, "")
    starts = (progress_key(lane), buffer_key(lane, 0)[:-9], late_key(lane, 0)[:-9])

    def wanted(key: bytes, value: bytes) -> bool:
        return _own(key) or key.startswith(starts)

    return wanted


@lru_cache(64)
def with_keys(wanted: Wanted, keys: frozenset[bytes]) -> Wanted:
    """The same rows and those of some keys; the same one when asked again."""
    return lambda key, value: key in keys or wanted(key, value)


def of_waiting(key: bytes, value: bytes) -> bool:
    """What waits, the progress of the streams that wait, and what there is of the view."""
    if key[:1] == b"p":
        return b'"since":' in without_state(value)
    return _own(key) or (key[:1] == b"b" and len(key) >= _KEYS)


def of_counts(key: bytes, value: bytes) -> bool:
    """The view's counts and positions, and what it learned of lateness."""
    return key in _OWN


def waiting_rows(fold: Fold) -> dict[bytes, bytes]:
    """The rows of a fold `of_waiting`, without what is left of streams that wait no longer.

    At least once, a unit may have been cut off between a stream's progress and what it let go.
    """
    rows = fold.rows
    return {
        key: value
        for key, value in rows.items()
        if key[:1] != b"b" or progress_key(split_buffer_key(key)[0]) in rows
    }
