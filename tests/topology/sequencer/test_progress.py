"""Progress: a number where there is no more to say, and what was skipped where there is."""

from dataclasses import fields
from typing import Any

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from tests.topology.sequencer.held import event
from topology import Event
from topology.engine.state.rows import decode_progress, encode_progress
from topology.sequencer.progress import (
    SKIPPED_KEPT,
    Progress,
    last_of,
    may_be_lost,
    may_be_skipped,
)
from topology.sequencer.ring import RingBuffer


class _WasDead(Event):
    was_dead = True


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


@example(taken=[], ranges=[1] * SKIPPED_KEPT)
@example(taken=[2], ranges=[1] * (SKIPPED_KEPT - 2) + [3])
@given(
    taken=st.lists(st.integers(0, 4 * SKIPPED_KEPT), max_size=80),
    ranges=st.lists(st.integers(1, 3), max_size=SKIPPED_KEPT + 8),
)
def test_what_was_given_up_is_remembered_or_known_to_be_forgotten(
    ranges: list[int], taken: list[int]
) -> None:
    progress, left, at = Progress(0), set[int](), 0
    for missing in ranges:
        progress.add_skipped(at + 1, at + missing)
        left.update(range(at + 1, at + missing + 1))
        at += missing + 1
    assert (progress.forgot is None) == (len(ranges) <= SKIPPED_KEPT)
    for sequence in taken:
        if progress.has_skipped(sequence):
            left.discard(sequence)
        progress.strike_skipped(sequence, 1)
    row = encode_progress(progress, None)
    for each in (progress, decode_progress(row)[0], progress.copy(), progress.plain()):
        for sequence in left:
            assert may_be_skipped(each, sequence)
        if progress.forgot is None:
            assert [n for n in range(at + 2) if may_be_skipped(each, n)] == sorted(left)


def test_a_range_that_came_late_does_not_hide_that_older_ones_are_forgotten() -> None:
    progress = Progress(0)
    for at in range(1, 2 * SKIPPED_KEPT + 3, 2):
        progress.add_skipped(at, at)
    progress.strike_skipped(9, 1)
    assert len(progress.skipped) < SKIPPED_KEPT
    assert may_be_lost(progress, _WasDead("a", 1, None, None, event("a", 1).message, 0))
    assert not may_be_lost(progress, _WasDead("a", 9, None, None, event("a", 9).message, 0))
    assert not may_be_lost(progress, event("a", 1))


def test_what_was_before_the_beginning_is_known_until_a_rebuild_has_asked() -> None:
    progress = Progress(2, rebuild=(1,), below=((1, 1),))
    assert decode_progress(encode_progress(progress, None))[0] == progress
    assert Progress(2, below=((1, 1),)).plain() != 2


def test_rows_of_before_forget_what_is_below_as_many_ranges_as_are_kept() -> None:
    ranges = tuple((at, at) for at in range(11, 11 + 2 * SKIPPED_KEPT, 2))
    full, fewer = (b'{"last":99,"skipped":%s}' % orjson.dumps(r) for r in (ranges, ranges[1:]))
    assert decode_progress(full)[0] == Progress(99, skipped=ranges, forgot=10)
    assert decode_progress(fewer)[0] == Progress(99, skipped=ranges[1:])


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
