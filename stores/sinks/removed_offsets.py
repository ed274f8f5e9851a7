"""Offsets of dead records that are kept no more, in little room.

A replay of such a record has to be known again, or it would be taken for one that was never seen.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable

MOST = 1_000
"""Spans of a partition; beyond, those with the least between them become one."""

Span = tuple[int, int, int]
"""First and last offset, and how many records of those between were removed."""


def with_offsets(spans: Iterable[Span], offsets: Iterable[int]) -> list[Span]:
    """The same with more offsets. One that is in a span already is not counted again."""
    known = joined(spans, ())
    return joined(known, [(at, at, 1) for at in set(offsets) if not has(known, at)])


def joined(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """Both, sorted, and at most MOST of them."""
    found: list[Span] = []
    for span in sorted({*spans, *others}):
        if found and span[0] <= found[-1][1] + 1:
            found[-1] = _one(found[-1], span)
        else:
            found.append(span)
    gaps = sorted(range(1, len(found)), key=lambda at: found[at][0] - found[at - 1][1])
    close = set(gaps[: max(0, len(found) - MOST)])
    kept: list[Span] = []
    for at, span in enumerate(found):
        if at in close:
            kept[-1] = _one(kept[-1], span)
        else:
            kept.append(span)
    return kept


def has(spans: list[Span], offset: int) -> bool:
    """Whether an offset is in one of these, which are sorted."""
    place = bisect_right(spans, offset, key=lambda span: span[0])
    return place > 0 and offset <= spans[place - 1][1]


def count(spans: Iterable[Span]) -> int:
    """How many records were removed."""
    return sum(number for _, _, number in spans)


def encoded(spans: list[Span]) -> str:
    """As they are kept."""
    return json.dumps(spans, separators=(",", ":"))


def decoded(kept: str) -> list[Span]:
    """As they were kept."""
    return [(first, last, number) for first, last, number in json.loads(kept)]


def _one(span: Span, other: Span) -> Span:
    first, last = min(span[0], other[0]), max(span[1], other[1])
    return first, last, min(span[2] + other[2], last - first + 1)
