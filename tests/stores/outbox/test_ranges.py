"""The division of a range of sequences agrees with looking at each one."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stores.outbox.ranges import SequenceRange, classify

RANGES = st.lists(
    st.tuples(st.integers(1, 30), st.integers(0, 8)).map(lambda pair: (pair[0], sum(pair))),
    max_size=6,
)


@given(st.integers(1, 25), st.integers(0, 15), st.integers(0, 40), RANGES, RANGES)
def test_each_sequence_is_in_one_range_of_its_state(
    first: int, more: int, assigned: int, kept: list[tuple[int, int]], void: list[tuple[int, int]]
) -> None:
    known = classify(first, first + more, assigned, kept, void)

    def state(number: int) -> str:
        if number > assigned:
            return "ahead"
        if any(start <= number <= end for start, end in void):
            return "void"
        return "kept" if any(start <= number <= end for start, end in kept) else "gone"

    numbers = range(first, first + more + 1)
    each = [(number, one.state) for one in known for number in range(one.first, one.last + 1)]
    assert each == [(number, state(number)) for number in numbers]
    assert all(one.state != other.state for one, other in pairwise(known))


def test_a_range_that_lies_within_one_state_stays_whole() -> None:
    assert classify(5, 9, 100, [(1, 20)], []) == [SequenceRange(5, 9, "kept")]
