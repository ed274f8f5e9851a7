"""Slices: files that are complete or not there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from topology.spark.slices import BYTES, ROWS, Emitted, SliceRecord, Slices
from topology.view_rebuild import Rebuilt


def test_rows_come_back_in_order_and_with_what_was_noted(tmp_path: Path) -> None:
    slices = Slices(str(tmp_path / "slices"))
    assert slices.done() == []
    assert slices.tally(3) is None
    rows: list[Rebuilt | Emitted] = [
        Rebuilt("board", f"s{n}", n, b"%d" % n) for n in range(2 * ROWS + 5)
    ]
    rows.insert(7, Emitted("log", None, b"x", [("h", b"\xff"), ("n", None)]))  # type: ignore[list-item]
    slices.write(3, rows, lambda: {"board": 1})
    assert slices.done() == [3]
    assert slices.tally(3) == {"board": 1}
    found = [row for batch in slices.read(3) for row in batch]
    assert found[0] == SliceRecord("board", "s0", b"0", b"")
    assert found[7] == rows[7]
    assert len(found) == len(rows)


def test_large_rows_are_read_few_at_a_time(tmp_path: Path) -> None:
    slices = Slices(str(tmp_path))
    large = bytes(BYTES // 3 + 1)
    slices.write(0, [Rebuilt("board", "s", n, large) for n in range(7)], lambda: {"n": 7})
    assert [len(batch) for batch in slices.read(0)] == [3, 3, 1]
    assert slices.tally(0) == {"n": 7}


def test_a_batch_of_a_file_may_be_full_at_its_end_and_of_other_views_than_the_one_before(
    tmp_path: Path,
) -> None:
    def rows(*kinds: str) -> list[Rebuilt | Emitted]:
        return [
            Rebuilt(kind, "s", 1, b"1") if kind else Emitted("log", None, b"x", [])
            for kind in kinds
            for _ in range(ROWS)
        ]

    for number, kinds in enumerate([("board",), ("board", "log"), ("board", "", "log"), ("",)]):
        slices = Slices(str(tmp_path))
        slices.write(number, rows(*kinds), dict)
        sizes = [len(batch) for batch in slices.read(number)]
        assert sizes == [*[ROWS] * len(kinds), 0]


def test_a_slice_without_rows_is_complete_too(tmp_path: Path) -> None:
    slices = Slices(str(tmp_path))
    slices.write(0, [], lambda: {"n": 0})
    assert slices.tally(0) == {"n": 0}
    assert list(slices.read(0)) == [[]]


def test_one_that_was_not_finished_is_not_there(tmp_path: Path) -> None:
    def rows() -> Iterator[Rebuilt]:
        yield Rebuilt("board", "s", 1, b"1")
        raise RuntimeError("killed")

    slices = Slices(str(tmp_path))
    with pytest.raises(RuntimeError):
        slices.write(0, rows(), dict)
    assert slices.done() == []
    assert slices.tally(0) is None
