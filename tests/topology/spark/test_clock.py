"""What time it is for a batch: by Spark's own notes alone."""

from collections.abc import Callable

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from topology.spark.clock import BatchClock, parse_offsets


def note(made: int, *ends: int) -> str:
    offsets = {"in": {str(number): end for number, end in enumerate(ends)}}
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": made, "conf": {}}
    return "v1\n" + orjson.dumps(metadata).decode() + "\n" + orjson.dumps(offsets).decode()


def clock(*notes: str, limit: int = 100) -> BatchClock:
    read: Callable[[int], str | None] = dict(enumerate(notes)).get
    return BatchClock(read, lambda batch: limit)


def test_a_batch_that_is_not_full_has_all_that_came_before_the_last_one_was_made() -> None:
    assert clock(note(1_000, 10), note(2_000, 60)).watermark(1) == 1_000
    assert clock(note(1_000, 10), note(2_000, 10)).watermark(1) == 1_000


def test_behind_a_backlog_nothing_is_known() -> None:
    assert clock(note(1_000, 10), note(2_000, 110)).watermark(1) is None
    assert clock(note(1_000, 10)).watermark(0) is None
    assert clock(note(1_000, 10)).watermark(3) is None


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=20), st.integers(1, 10_000))
def test_a_batch_that_spark_has_cut_short_is_seen_to_be(behind: list[int], limit: int) -> None:
    # Spark's own way to share the limit out, see its rateLimit: never less than one, rounded down.
    total = sum(behind)
    assume(total > limit)
    shares = [size * limit / total for size in behind]
    takes = [
        min(size, int(-(-s // 1)) if s < 1 else int(s))
        for size, s in zip(behind, shares, strict=True)
    ]
    before, now = note(1, *(0 for _ in behind)), note(2, *takes)
    assert clock(before, now, limit=limit).watermark(1) is None


def test_more_partitions_than_a_batch_has_records_do_not_hold_the_watermark_up() -> None:
    idle = [5] * 352
    assert clock(note(1_000, *idle), note(2_000, *idle)).watermark(1) == 1_000
    assert clock(note(1_000, *idle), note(2_000, 50, *idle[1:])).watermark(1) == 1_000
    assert clock(note(1_000, *idle), note(2_000, 104, *idle[1:])).watermark(1) is None
    assert clock(note(1_000, 5, 5), note(2_000, 5, 5), limit=1).watermark(1) == 1_000


def test_a_limit_below_the_partitions_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    one = clock(note(1_000, 5, 5), note(2_000, 5, 5), note(3_000, 5, 5), limit=1)
    assert [one.watermark(batch) for batch in (1, 2)] == [1_000, 2_000]
    assert [each.message[:52] for each in caplog.records] == [
        "a batch has 1 messages at most, and there are 2 part"
    ]


def test_a_new_partition_counts_from_its_start() -> None:
    assert clock(note(1_000, 10), note(2_000, 10, 95)).watermark(1) == 1_000
    assert clock(note(1_000, 10), note(2_000, 10, 99)).watermark(1) is None


def test_it_says_the_same_when_the_batch_is_run_again() -> None:
    notes = [note(1_000, 10), note(2_000, 60), note(3_000, 61)]
    one = clock(*notes)
    assert [one.watermark(batch) for batch in (0, 1, 2, 2)] == [None, 1_000, 2_000, 2_000]
    assert clock(*notes).watermark(2) == 2_000


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="version 'v2'"):
        parse_offsets("v2\n{}\n{}")
