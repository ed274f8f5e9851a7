"""Workers that read a source's partitions wait for slower ones, and for none of them in vain."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.engine.intake import IntakeCounts, decode_intake, encode_intake
from topology.engine.partition.alignment import PATIENCE
from topology.engine.partition.group_alignment import LONGEST, GroupAlignment


def test_a_worker_that_is_ahead_waits_until_the_slowest_is_within_the_bound() -> None:
    group = GroupAlignment(1_000)
    assert not group.is_ahead({"a": 1_000}, {"b": 0}, 0)
    assert group.is_ahead({"a": 1_001}, {"b": 0, "c": 5_000}, 1)
    assert group.is_ahead({"a": 1_001}, {"b": 0}, 2)
    assert not group.is_ahead({"a": 1_001}, {"b": 1}, 3)


def test_what_it_read_since_the_last_look_is_no_lead() -> None:
    group = GroupAlignment(0)
    assert not group.is_ahead({"a": 0}, {"b": 0}, 0)
    assert not group.is_ahead({"a": 9_000}, {"b": 0}, 500)
    assert group.is_ahead({"a": 12_000}, {"b": 5_000}, 1_000)


@pytest.mark.parametrize("others", [{}, {"b": 5.0}], ids=["at their ends", "ahead"])
def test_nobody_waits_for_a_partition_at_its_end_or_ahead(others: dict[str, float]) -> None:
    group = GroupAlignment(0)
    assert not group.is_ahead({"a": 5}, others, 0)
    assert not group.is_ahead({}, {"b": 1}, 0)
    assert not group.is_ahead({"a": -math.inf}, {"b": 1}, 0)


def test_one_that_stands_still_is_waited_for_no_longer_until_it_moves() -> None:
    """Its worker is dead or frozen, or has not begun."""
    group = GroupAlignment(0)
    for time in (-math.inf, 1.0):
        group.is_ahead({"a": 9}, {}, 0)
        assert group.is_ahead({"a": 9}, {"b": time}, 0)
        assert group.is_ahead({"a": 9}, {"b": time}, PATIENCE - 1)
        before = group.passed
        assert not group.is_ahead({"a": 9}, {"b": time}, PATIENCE)
        assert not group.is_ahead({"a": 10}, {"b": time}, PATIENCE + 1)
        assert group.passed == before + 1
    assert group.is_ahead({"a": 10}, {"b": 2}, PATIENCE + 2)


def test_one_whose_clock_is_behind_is_waited_for_a_while_though_it_moves_on() -> None:
    group, held = GroupAlignment(0), 0
    for now in range(0, 5 * LONGEST, 1_000):
        held += group.is_ahead({"a": 10**9}, {"b": now}, now)
    assert held * 1_000 == LONGEST
    assert group.passed == 1
    assert not group.is_ahead({"a": 10**9}, {}, 5 * LONGEST)
    assert group.is_ahead({"a": 10**9}, {"b": 0}, 5 * LONGEST)


def test_the_time_goes_with_the_committed_offset_and_older_workers_note_none() -> None:
    noted = IntakeCounts(9, held=1, time=1_790_000_000_000)
    assert decode_intake(encode_intake(noted)) == noted
    assert decode_intake('{"read":9,"malformed":0,"unknown":0}').time == 0
    assert decode_intake("").time == 0
    # Of the group's earlier life, with another consumer.
    for theirs in ("AgAAAZsK", "7", "[1]", "null", '{"read":"9"}', '{"read":true}', "{", "\ud800"):
        assert decode_intake(theirs) == IntakeCounts()
    assert len(encode_intake(noted)) < 200


SPEEDS = st.lists(st.integers(1, 10), min_size=2, max_size=4)


@given(SPEEDS, st.integers(0, 50), st.lists(st.integers(1, 100), min_size=4, max_size=4))
def test_workers_of_any_speeds_stay_together_and_the_slowest_is_not_slowed(
    speeds: list[int], bound: int, gaps: list[int]
) -> None:
    """Each has one partition, whose records are `gap` apart, and looks before each read: it may be
    ahead by the bound, what it read since its last look, and what it reads until the next one."""
    groups = [GroupAlignment(bound) for _ in speeds]
    reached: list[float] = [0 for _ in speeds]
    reads = [0 for _ in speeds]
    ways = [speed * gap for speed, gap in zip(speeds, gaps, strict=False)]
    for now in range(200):
        ran = False
        for each, group in enumerate(groups):
            others = {other: time for other, time in enumerate(reached) if other != each}
            if not group.is_ahead({each: reached[each]}, others, now):
                reached[each] += ways[each]
                reads[each] += 1
                ran = True
            assert reached[each] - min(reached) <= max(bound, ways[each]) + ways[each]
        assert ran
    assert not any(group.passed for group in groups)
    assert reads[ways.index(min(ways))] == 200
