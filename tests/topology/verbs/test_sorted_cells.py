"""Sorted cells against a plain sorted list."""

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from topology.verbs.sorted_cells import SortedCells

CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "put", "put", "remove"]), st.integers(0, 400)), max_size=400
)


@settings(max_examples=some(60), deadline=None)
@given(CHANGES, st.booleans())
def test_they_are_as_a_sorted_list(changes: list[tuple[str, int]], growing: bool) -> None:
    cells: dict[str, Any] = {}
    known: dict[tuple[int, str], int] = {}
    for number, (what, at) in enumerate(changes * 3):
        tree = SortedCells(cells, "x")
        at = number if growing and what == "put" else at
        key = (at // 2, str(at % 2))
        if what == "put":
            tree.put([*key, number])
            known[key] = number
        elif known:
            gone = min(known) if growing else min(known, key=lambda each: abs(each[0] - at))
            tree.remove([*gone, known.pop(gone)])
        cells = orjson.loads(orjson.dumps(cells))
    tree = SortedCells(cells, "x")
    wanted: list[list[Any]] = [[*key, number] for key, number in sorted(known.items())]
    assert list(tree.since([-1])) == wanted
    for at in (0, 7, 100, 199, 500):
        assert list(tree.since([at])) == [each for each in wanted if each[0] >= at]
        assert list(tree.below([at])) == [each for each in reversed(wanted) if each[0] < at]
    assert all(tree.find(each) == each for each in wanted)
    assert tree.find([1000, "0"]) is None
    assert wanted or not cells
