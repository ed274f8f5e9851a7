"""Recorded arrivals that begin in the middle of their streams, as if they began at the start."""

from collections.abc import Iterable

Arrived = tuple[str, int, int]
"""(stream, sequence, when it arrived in ms)."""


def rebased(arrivals: Iterable[Arrived], start: int) -> list[Arrived]:
    """The same arrivals, with the lowest sequence of each stream as `start`.

    What was missing before it is taken for processed: it says nothing of how late events come.
    """
    arrivals = list(arrivals)
    lowest: dict[str, int] = {}
    for stream, sequence, _ in arrivals:
        if sequence < lowest.get(stream, sequence + 1):
            lowest[stream] = sequence
    return [(stream, n - lowest[stream] + start, at) for stream, n, at in arrivals]
