"""Progress: a number where there is no more to say, and what was skipped where there is."""

from dataclasses import fields
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.topology.sequencer.held import event
from topology.sequencer.progress import Progress, last_of
from topology.sequencer.ring import RingBuffer


def test_progress_without_buffers_or_skips_is_a_plain_int() -> None:
    assert Progress(7).plain() == 7
    assert Progress(7, ring=RingBuffer(4)).plain() == 7
    assert last_of(Progress(7)) == last_of(7) == 7


def test_progress_that_waits_or_skipped_stays_itself() -> None:
    ring = RingBuffer(4)
    ring.put(event("a", 9))
    for progress in (
        Progress(7, ring=ring),
        Progress(7, spilled=1),
        Progress(7, skipped=((2, 3),)),
    ):
        assert progress.plain() is progress


def test_an_empty_ring_is_let_go() -> None:
    progress = Progress(7, ring=RingBuffer(4), skipped=((2, 3),))
    progress.plain()
    assert progress.ring is None


@given(
    ranges=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), max_size=8),
    step=st.integers(1, 4),
    taken=st.lists(st.integers(0, 60), max_size=40),
)
def test_skipped_sequences_are_struck_off_one_by_one(
    ranges: list[tuple[int, int]], step: int, taken: list[int]
) -> None:
    progress, left, at = Progress(0), set[int](), 0
    for handled, missing in ranges:
        first = at + handled
        at = first + missing - 1
        progress.add_skipped(first * step, at * step)
        left.update(range(first * step, at * step + 1, step))
        at += 1

    for number in taken:
        sequence = number * step
        assert progress.has_skipped(sequence) == (sequence in left)
        progress.strike_skipped(sequence, step)
        left.discard(sequence)
    remembered = [n for a, b in progress.skipped for n in range(a, b + 1, step)]
    assert remembered == sorted(left)


def test_a_copy_has_all_that_the_progress_has() -> None:
    values: dict[str, Any] = {field.name: object() for field in fields(Progress)}
    progress = Progress(**{**values, "ring": None})
    copy = progress.copy()
    assert copy == progress
    assert copy is not progress


def test_a_copy_shares_no_ring() -> None:
    ring = RingBuffer(4)
    ring.put(event("a", 9))
    copy = Progress(7, ring=ring).copy()
    assert copy.ring is not None
    copy.ring.put(event("a", 10))
    assert (len(ring), len(copy.ring)) == (1, 2)
