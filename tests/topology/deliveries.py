"""Deliveries for Hypothesis: what several streams sent, as an unreliable network hands it over."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, cycle, groupby
from typing import NamedTuple, TypeVar

import orjson
from hypothesis import strategies as st

from topology import Record

T = TypeVar("T")


class Arrival(NamedTuple):
    """The `nth` event of a stream, counted from 0, which arrives at `at` ms."""

    stream: str
    nth: int
    at: int


# How often an event arrives and how many places late: mostly once and in time, seldom never.
_FATES = ((0,), (0,), (0,), (1,), (3,), (9,), (0, 0), (0, 4), (6, 2), ())


@st.composite
def deliveries(draw: st.DrawFn, streams: str = "abc", events: int = 9) -> list[Arrival]:
    """Streams interleaved, with events overtaken, doubled and lost; a second per place."""
    sent = [(stream, index) for index in range(events) for stream in streams]
    fates = draw(st.lists(st.sampled_from(_FATES), min_size=len(sent), max_size=len(sent)))
    arrivals = [
        Arrival(stream, index, 1000 * (index + places))
        for (stream, index), fate in zip(sent, fates, strict=True)
        for places in fate
    ]
    return sorted(arrivals, key=lambda arrival: arrival.at)


def cuts() -> st.SearchStrategy[list[int]]:
    """Sizes of batches, used over and over."""
    return st.lists(st.integers(1, 12), min_size=1, max_size=6)


def batches(items: Sequence[T], sizes: Iterable[int]) -> Iterator[Sequence[T]]:
    """The items, cut into batches of the given sizes."""
    at = 0
    for size in cycle(sizes):
        if at >= len(items):
            return
        yield items[at : at + size]
        at += size


def moments(arrivals: Iterable[Arrival]) -> Iterator[tuple[int, list[Arrival]]]:
    """(time, the arrivals at that time), in order of time."""
    for at, together in groupby(arrivals, key=lambda arrival: arrival.at):
        yield at, list(together)


def body(stream: str, sequence: int, **more: object) -> bytes:
    """The value of an order's message."""
    return orjson.dumps({"stream": stream, "sequence": sequence, "kind": "Placed", **more})


def fed(
    arrivals: Iterable[Arrival], sizes: Iterable[int], start: int = 1, step: int = 1
) -> list[tuple[int, list[Sequence[Record]]]]:
    """(time, the batches of records that arrive then), for `Partition.live`."""
    return [
        (at, list(batches(records(together, start, step), sizes)))
        for at, together in moments(arrivals)
    ]


def records(arrivals: Iterable[Arrival], start: int = 1, step: int = 1) -> list[Record]:
    """The arrivals as records of the topic `orders`, keyed by stream."""
    offsets = count()
    return [
        Record(
            "orders",
            0,
            next(offsets),
            stream.encode(),
            body(stream, start + step * nth),
            timestamp=at,
        )
        for stream, nth, at in arrivals
    ]
