"""Which sequences are missing in front of and among those that wait."""

from collections.abc import Iterable
from dataclasses import dataclass

from topology.sequencer.sequencer import Ordering

SHOWN = 20
"""Ranges that are told one by one."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Sequences `first` to `last`. count: how many, None where the order does not say."""

    first: int
    last: int
    count: int | None


def missing(
    ordering: Ordering, last: int, here: Iterable[int], *, can_go_on: bool
) -> tuple[list[Missing], int]:
    """(the first ranges that are missing, how many ranges there are).

    last: the last processed sequence. here: the sequences that are there, sorted. can_go_on:
    whether the first of them is the next one.
    """
    if ordering.settles:
        return [], 0
    if not ordering.counts:
        # Each names its predecessor: only of the first one is it known that something is missing.
        head = next(iter(here), None)
        if head is None or can_go_on:
            return [], 0
        return [Missing(last + 1, head - 1, None)], 1
    found: list[Missing] = []
    ranges, add = 0, ordering.step
    for sequence in here:
        if sequence > last + add:
            ranges += 1
            if len(found) < SHOWN:
                first = last + add
                found.append(Missing(first, sequence - add, (sequence - first) // add))
        last = max(last, sequence)
    return found, ranges
