"""Sequences: as a set of numbers, and as small as what is missing in it."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from topology.diagnostics.audit.sequences import Sequences

NUMBERS = st.lists(st.integers(-6, 14), max_size=25)


def made(numbers: list[int]) -> Sequences:
    found = Sequences()
    seen: set[int] = set()
    for number in numbers:
        assert found.add(number) == (number not in seen)
        seen.add(number)
    return found


def numbers_of(found: Sequences) -> set[int]:
    return {number for first, end in found for number in range(first, end)}


@given(NUMBERS, NUMBERS)
def test_it_is_a_set(some: list[int], others: list[int]) -> None:
    one, other = made(some), made(others)
    assert numbers_of(one) == set(some)
    assert len(one) == len(set(some))
    assert numbers_of(one | other) == set(some) | set(others)
    assert numbers_of(one - other) == set(some) - set(others)
    assert numbers_of(one & other) == set(some) & set(others)
    assert numbers_of(one.below(5)) == {number for number in some if number < 5}
    assert [number in one for number in range(-8, 16)] == [n in set(some) for n in range(-8, 16)]
    if some:
        assert one.first == min(some)


@given(NUMBERS, NUMBERS)
def test_its_ranges_are_as_few_as_can_be(some: list[int], others: list[int]) -> None:
    one, other = made(some), made(others)
    for found in (one, one | other, one - other, one & other, Sequences([(3, 5), (5, 7), (1, 1)])):
        ranges = list(found)
        assert all(first < end for first, end in ranges)
        assert all(end < first for (_, end), (first, _) in pairwise(ranges))
