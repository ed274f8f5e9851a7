"""Recorded arrivals that begin in the middle of their streams."""

from hypothesis import given
from hypothesis import strategies as st

from topology.explain.rebased import rebased
from topology.suggest import suggest_timeouts


def test_each_stream_begins_at_the_start() -> None:
    arrivals = [("a", 43, 1), ("b", 7, 2), ("a", 42, 3), ("a", 45, 4)]
    assert rebased(arrivals, 1) == [("a", 2, 1), ("b", 1, 2), ("a", 1, 3), ("a", 4, 4)]


@given(st.permutations(range(1, 9)), st.integers(0, 1000))
def test_what_is_suggested_does_not_depend_on_where_a_stream_is(
    order: list[int], passed: int
) -> None:
    whole = [("a", sequence, at * 700) for at, sequence in enumerate(order)]
    later = [(stream, sequence + passed, at) for stream, sequence, at in whole]
    assert suggest_timeouts(rebased(later, 1)) == suggest_timeouts(whole)
