"""A set of numbers kept as ranges: as small as what is missing in it, however many there are."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain

from topology.model.counts import saturated

Range = tuple[int, int]
"""(first, end): the numbers from first up to, and without, end."""


def merged(ranges: Iterable[Range]) -> Iterator[Range]:
    """The same numbers in as few ranges as can be, in order."""
    begun: Range | None = None
    for first, end in sorted(ranges):
        if begun is None:
            begun = first, end
        elif first <= begun[1]:
            begun = begun[0], max(begun[1], end)
        else:
            yield begun
            begun = first, end
    if begun is not None:
        yield begun


class Sequences:
    """Numbers that mostly come one after the other; each range takes two ints."""

    __slots__ = ("bounds",)

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self.bounds: list[int] = [at for r in merged(r for r in ranges if r[0] < r[1]) for at in r]

    def add(self, number: int) -> bool:
        """Add a number; whether it was not in before."""
        bounds = self.bounds
        if bounds and number == bounds[-1]:
            bounds[-1] = number + 1
            return True
        at = bisect_right(bounds, number)
        if at % 2:
            return False
        left = at > 0 and bounds[at - 1] == number
        right = at < len(bounds) and bounds[at] == number + 1
        if left and right:
            del bounds[at - 1 : at + 1]
        elif left:
            bounds[at - 1] = number + 1
        elif right:
            bounds[at] = number
        else:
            bounds[at:at] = (number, number + 1)
        return True

    def below(self, end: int) -> "Sequences":
        """The numbers below `end`."""
        return Sequences((first, min(last, end)) for first, last in self if first < end)

    def __and__(self, other: "Sequences") -> "Sequences":
        return self - (self - other)

    def __or__(self, other: "Sequences") -> "Sequences":
        # Not unpacked: that would ask for the length, which may be more than a size can be.
        return Sequences(chain(self, other))

    def __sub__(self, other: "Sequences") -> "Sequences":
        found, taken, at = Sequences(), other.bounds, 0
        bounds = found.bounds
        for first, end in self:
            while at < len(taken) and taken[at + 1] <= first:
                at += 2
            near = at
            while near < len(taken) and taken[near] < end:
                if first < taken[near]:
                    bounds += (first, taken[near])
                first = taken[near + 1]
                near += 2
            if first < end:
                bounds += (first, end)
        return found

    def __contains__(self, number: int) -> bool:
        return bisect_right(self.bounds, number) % 2 == 1

    def __iter__(self) -> Iterator[Range]:
        """The ranges, in order."""
        bounds = self.bounds
        return zip(bounds[::2], bounds[1::2], strict=True)

    def __len__(self) -> int:
        # No more than a length can be; counts stop there too.
        return saturated(sum(self.bounds[1::2]) - sum(self.bounds[::2]))

    def __bool__(self) -> bool:
        return bool(self.bounds)

    @property
    def first(self) -> int:
        """The least number; there has to be one."""
        return self.bounds[0]


NONE = Sequences()
"""No numbers; never changed."""
