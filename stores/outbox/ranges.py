"""What a log knows of a stream's sequences: what answers a request to send a range again."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["kept", "void", "gone", "ahead"]
Range = tuple[int, int]
"""First and last sequence, both included."""


@dataclass(frozen=True, slots=True)
class SequenceRange:
    """What became of a range of a stream's sequences.

    Attributes:
        first: the first sequence.
        last: the last sequence, included.
        state: "kept": the log has them, and they can be sent again. "void": declared so, they never
            come; on this proof a gap may be skipped. "gone": acknowledged and deleted. "ahead": no
            committed transaction has them yet.
    """

    first: int
    last: int
    state: State


def classify(
    first: int, last: int, assigned: int, kept: Iterable[Range], void: Iterable[Range]
) -> list[SequenceRange]:
    """Divide the sequences from `first` to `last`.

    assigned: the stream's last sequence. kept, void: ranges; where they overlap it is void.
    """
    kept, void = _merged(kept), _merged(void)
    edges = {first, assigned + 1, *(edge for a, b in (*kept, *void) for edge in (a, b + 1))}
    starts = sorted(edge for edge in edges if first <= edge <= last)
    known: list[SequenceRange] = []
    for start, end in zip(starts, [*(edge - 1 for edge in starts[1:]), last], strict=True):
        state: State = "gone"
        if start > assigned:
            state = "ahead"
        elif _has(void, start):
            state = "void"
        elif _has(kept, start):
            state = "kept"
        if known and known[-1].state == state:
            known[-1] = SequenceRange(known[-1].first, end, state)
        else:
            known.append(SequenceRange(start, end, state))
    return known


def _merged(ranges: Iterable[Range]) -> list[Range]:
    """The same sequences, as ranges that are sorted and do not overlap."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def _has(ranges: list[Range], sequence: int) -> bool:
    place = bisect_right(ranges, sequence, key=lambda range: range[0])
    return place > 0 and sequence <= ranges[place - 1][1]
