"""Offsets that are no more kept, in little room: none is forgotten, none counted twice."""

from hypothesis import given
from hypothesis import strategies as st

from stores.sinks import removed_offsets
from stores.sinks.removed_offsets import count, decoded, encoded, has, joined, with_offsets

_offsets = st.sets(st.integers(0, 40), max_size=12)


@given(st.lists(_offsets, max_size=4), _offsets)
def test_offsets_are_known_exactly_while_they_are_few(
    added: list[set[int]], others: set[int]
) -> None:
    spans: list[removed_offsets.Span] = []
    for offsets in added:
        spans = decoded(encoded(with_offsets(spans, offsets)))
    expected = set().union(*added)
    assert {at for at in range(-1, 42) if has(spans, at)} == expected
    assert count(spans) == len(expected)
    both = joined(spans, with_offsets([], others))
    assert {at for at in range(-1, 42) if has(both, at)} == expected | others


def test_beyond_a_bound_close_ones_become_one_and_none_is_forgotten() -> None:
    most = removed_offsets.MOST
    offsets = [at * 10 for at in range(most)] + [5]
    spans = with_offsets([], offsets)
    assert len(spans) == most
    assert count(spans) == most + 1
    assert all(has(spans, at) for at in offsets)
    assert not has(spans, 15)
    many = with_offsets([], range(0, 20 * most, 2))
    assert len(many) == most
    assert count(many) == 10 * most
