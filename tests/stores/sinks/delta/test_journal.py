"""How far a Delta Lake store is, given which tables a batch that was cut off has written."""

from collections.abc import Sequence

import pytest

from stores.sinks import Position
from stores.sinks.delta.journal import JournalEntry, StoreState, Switch, decoded

AT = ("t", 0)


def _state(offset: int, **ahead: int) -> StoreState:
    return StoreState(
        {AT: Position("t", 0, offset, applied=offset)},
        {},
        {table: {AT: end} for table, end in ahead.items()},
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([], _state(10)),
        (["a"], _state(10, a=20)),
        (["a", "b"], _state(10, a=20, b=20)),
        (["a", "b", "_progress"], _state(20)),
    ],
)
def test_a_batch_counts_once_its_last_table_is_written(
    written: Sequence[str], expected: StoreState
) -> None:
    entry = JournalEntry(7, ["a", "b", "_progress"], _state(10), _state(20))
    assert entry.state(written.__contains__) == expected


def test_a_table_stays_ahead_until_the_others_are_as_far() -> None:
    cut_off = JournalEntry(7, ["a", "_progress"], _state(10), _state(20)).state(["a"].__contains__)
    smaller = cut_off.moved({AT: Position("t", 0, 15, applied=15)}, {})
    assert smaller == _state(15, a=20)
    again = JournalEntry(8, ["b", "_progress"], cut_off, smaller).state(["b"].__contains__)
    assert again == _state(10, a=20, b=15)
    assert smaller.moved({AT: Position("t", 0, 20, applied=20)}, {}) == _state(20)
    assert smaller.at([Position("t", 0, 3)]).ahead == {"a": {}}


def test_a_batch_without_tables_counts_at_once() -> None:
    assert JournalEntry(1, [], _state(10), _state(11)).state([].__contains__) == _state(11)


def test_an_entry_is_read_as_it_was_written() -> None:
    marks = {("t", "v", "s"): (1, 7)}
    position = Position("t", 0, 5, 3, 1, 1)
    after = StoreState({AT: position}, {"q": (2, "now", 9)}, {"a": {AT: 7}}, marks)
    for switch in (None, Switch("next", ["t"], ["a"])):
        replacing = () if switch else (("t", -1, 0, b'{"\xc3\xa9": 1}'), ("t", -1, 1, None))
        entry = JournalEntry(3, ["a"], StoreState(), after, switch, replacing)
        kept = entry.encoded()
        assert decoded(kept) == entry
        once = kept.replace(b'"replacing":', b'"amended":').replace(b'"shadow":', b'"side":')
        assert decoded(once) == entry


@pytest.mark.parametrize("kept", [b"", b"{", b"[]", b"{}", b'{"version": 1}'])
def test_something_else_is_no_entry(kept: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        decoded(kept)
