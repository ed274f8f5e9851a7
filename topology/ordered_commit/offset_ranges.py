"""Offsets that are done ahead of the position: sorted ranges, and their bytes."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

MAX_RANGES = 1_000_000
"""The most ranges that are written or read back: one more than events may be open."""
HIGHEST = (1 << 63) - 1
"""The highest offset of a log."""
_VERSION = 1


class OffsetRanges:
    """Disjoint ranges of offsets in ascending order, each from its first up to before its end.

    It does not take offsets for consecutive: whoever knows that there is nothing between two of
    them says so, by an `end` beyond the first or by `bridge`.
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in ranges:
            self.add(start, end)

    def add(self, start: int, end: int) -> None:
        """Add the offsets from `start` up to before `end`; what is there already may overlap."""
        if not 0 <= start < end <= HIGHEST:
            raise ValueError(
                f"offsets {start} to {end}: a range begins at 0 or later, before its end"
            )
        starts, ends = self._starts, self._ends
        left = bisect_left(ends, start)
        right = bisect_right(starts, end)
        if left < right:
            start, end = min(start, starts[left]), max(end, ends[right - 1])
        starts[left:right] = [start]
        ends[left:right] = [end]

    def bridge(self, end: int, start: int) -> None:
        """There is nothing from `end` up to before `start`: extend the range that ends there."""
        place = bisect_left(self._ends, end)
        if start > end and place < len(self._ends) and self._ends[place] == end:
            self.add(end, start)

    def trim(self, position: int) -> None:
        """Forget what lies below `position`."""
        starts, ends = self._starts, self._ends
        if not starts or starts[0] >= position:
            return
        gone = bisect_right(ends, position)
        del starts[:gone], ends[:gone]
        if starts and starts[0] < position:
            starts[0] = position

    def covered(self, start: int, end: int) -> int:
        """How many of the offsets from `start` up to before `end` are in the ranges."""
        if end <= start:
            return 0
        first = bisect_right(self._ends, start)
        last = bisect_left(self._starts, end)
        pairs = zip(self._starts[first:last], self._ends[first:last], strict=True)
        return sum(min(high, end) - max(low, start) for low, high in pairs)

    def copy(self) -> "OffsetRanges":
        """The same ranges, apart from these."""
        new = OffsetRanges()
        new._starts, new._ends = self._starts.copy(), self._ends.copy()
        return new

    def encode(self) -> bytes:
        """The ranges as bytes: a version, then the lengths of gaps and ranges as varints."""
        written = bytearray((_VERSION,))
        last = 0
        for start, end in self:
            _put(written, start - last)
            _put(written, end - start)
            last = end
        return bytes(written)

    @classmethod
    def decode(cls, data: bytes, most: int = MAX_RANGES) -> "OffsetRanges":
        """The ranges that `encode` wrote.

        Args:
            data: the bytes.
            most: ranges that are accepted.

        Raises:
            ValueError: these are not the bytes of ranges; the text says why.
        """
        if not data or data[0] != _VERSION:
            raise ValueError("offset ranges: the first byte is not a version that is known")
        found = cls()
        at, last = 1, 0
        while at < len(data):
            if len(found._starts) == most:
                raise ValueError(f"offset ranges: more than {most}")
            gap, at = _take(data, at)
            length, at = _take(data, at)
            if length == 0 or (gap == 0 and last > 0):
                raise ValueError("offset ranges: one is empty, or adjoins the next")
            last += gap + length
            if last > HIGHEST:
                raise ValueError("offset ranges: beyond the highest offset")
            found._starts.append(last - length)
            found._ends.append(last)
        return found

    def __contains__(self, offset: int) -> bool:
        place = bisect_right(self._starts, offset) - 1
        return place >= 0 and offset < self._ends[place]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts, self._ends, strict=True))

    def __len__(self) -> int:
        """How many ranges."""
        return len(self._starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetRanges) and list(self) == list(other)

    def __hash__(self) -> int:
        raise TypeError("offset ranges change, and have no hash")

    def __repr__(self) -> str:
        return f"OffsetRanges({list(self)})"


def _put(written: bytearray, number: int) -> None:
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)


def _take(data: bytes, at: int) -> tuple[int, int]:
    """The varint at `at`, and where the next begins."""
    number = 0
    for shift in range(0, 63, 7):
        if at == len(data):
            raise ValueError("offset ranges: the bytes end within a number")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift > 0:
                raise ValueError("offset ranges: a number is written longer than it is")
            return number, at
    raise ValueError("offset ranges: a number is too long")
