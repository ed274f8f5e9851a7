"""Ranges of offsets are the set that was added, and only their own bytes are read back."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.ordered_commit import OffsetRanges
from topology.ordered_commit.offset_ranges import HIGHEST

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)).map(lambda s: (s[0], sum(s))))


@given(SPANS, st.integers(0, 70), st.integers(0, 70))
def test_they_are_the_set_of_what_was_added(
    spans: list[tuple[int, int]], position: int, end: int
) -> None:
    ranges = OffsetRanges(spans)
    held = {offset for start, end in spans for offset in range(start, end)}
    assert {offset for offset in range(80) if offset in ranges} == held
    assert {offset for low, high in ranges for offset in range(low, high)} == held
    edges = list(ranges)
    assert all(end < start for (_, end), (start, _) in pairwise(edges))
    assert ranges.covered(position, end) == len(held.intersection(range(position, end)))
    copy = ranges.copy()
    copy.trim(position)
    assert {offset for offset in range(80) if offset in copy} == {o for o in held if o >= position}
    assert ranges == OffsetRanges(spans)


@given(SPANS)
def test_bytes_are_read_back(spans: list[tuple[int, int]]) -> None:
    ranges = OffsetRanges(spans)
    assert OffsetRanges.decode(ranges.encode()) == ranges


@given(st.binary(max_size=30))
def test_other_bytes_are_refused_or_mean_one_thing(data: bytes) -> None:
    for given_bytes in (data, b"\1" + data):
        try:
            ranges = OffsetRanges.decode(given_bytes)
        except ValueError:
            continue
        assert ranges.encode() == given_bytes


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "version"),
        (b"\2\1\1", "version"),
        (b"\1\1", "end within a number"),
        (b"\1\1\x80", "end within a number"),
        (b"\1\1\0", "empty"),
        (b"\1\1\1\0\1", "adjoins"),
        (b"\1\x80\0\1", "written longer"),
        (b"\1" + b"\xff" * 10, "too long"),
        (b"\1" + b"\xff" * 8 + b"\x7f" + b"\1", "beyond the highest"),
        (b"\1\1\1\1\1\1\1", "more than 2"),
    ],
)
def test_bad_bytes_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        OffsetRanges.decode(data, most=2)


def test_the_bytes_of_many_holes_are_few() -> None:
    every_other = OffsetRanges((offset, offset + 1) for offset in range(10**12, 10**12 + 20_000, 2))
    assert len(every_other.encode()) < 20_020


def test_there_may_be_offsets_without_events_between_two() -> None:
    ranges = OffsetRanges([(5, 6)])
    ranges.bridge(6, 9)
    ranges.add(9, 10)
    assert list(ranges) == [(5, 10)]
    ranges.bridge(7, 20)
    assert list(ranges) == [(5, 10)], "what does not end there is not made longer"


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (3, 3), (4, 3), (0, HIGHEST + 1)])
def test_what_is_no_range_is_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="a range begins at 0"):
        OffsetRanges([(start, end)])
