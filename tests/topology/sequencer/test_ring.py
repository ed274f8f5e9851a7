"""The ring buffer: slot = sequence mod size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.sequencer.held import event
from topology.sequencer.ring import RingBuffer


@pytest.mark.parametrize(
    ("size", "step", "sequence", "slot"),
    [(16, 1, 43, 11), (16, 1, 45, 13), (16, 1, 48, 0), (1, 1, 7, 0), (4, 10, 50, 1), (4, 1, -1, 3)],
)
def test_the_slot_of_a_sequence(size: int, step: int, sequence: int, slot: int) -> None:
    assert RingBuffer(size, step).slot(sequence) == slot


@given(
    size=st.integers(1, 40),
    step=st.integers(1, 9),
    start=st.integers(-100, 100),
    at=st.integers(0, 99),
)
def test_sequences_that_the_ring_reaches_share_no_slot(
    size: int, step: int, start: int, at: int
) -> None:
    ring = RingBuffer(size, step)
    last = start + at * step
    reached = [last + step * ahead for ahead in range(1, size + 1)]
    assert all(ring.reaches(last, sequence) for sequence in reached)
    assert not ring.reaches(last, last + step * (size + 1))
    assert {ring.slot(sequence) for sequence in reached} == set(range(size))


def test_events_come_out_in_sequence_whatever_their_slots() -> None:
    ring = RingBuffer(4)
    for sequence in (8, 6, 7, 9):
        ring.put(event("a", sequence))
    assert [one.sequence for one in ring] == [6, 7, 8, 9]
    assert len(ring) == 4


def test_an_event_is_taken_out_once() -> None:
    ring = RingBuffer(4)
    five = event("a", 5)
    ring.put(five)
    assert ring.get(5) is five
    assert ring.get(6) is None
    assert ring.pop(5) is five
    assert ring.pop(5) is None
    assert not ring


def test_a_copy_is_a_ring_of_its_own() -> None:
    ring = RingBuffer(4, 2)
    ring.put(event("a", 4))
    copy = ring.copy()
    copy.put(event("a", 6))
    assert (len(ring), len(copy)) == (1, 2)
    assert (copy.size, copy.step) == (4, 2)
