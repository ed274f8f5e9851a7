"""Rows: what is written of a view's state is read back as it was, and sorts as it should."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import Counts, Record
from topology.engine.state.rows import (
    BUFFERS,
    COUNTS,
    buffer_key,
    decode_message,
    decode_progress,
    encode_message,
    encode_progress,
    progress_key,
    split_buffer_key,
)
from topology.model.counts import decode_counts, encode_counts
from topology.sequencer.progress import PendingRetry, Progress, last_of

SEQUENCES = st.integers(-(2**63), 2**63 - 1)
STREAMS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
RETRIES = st.none() | st.builds(
    PendingRetry, st.integers(1, 99), st.integers(0, 2**50), st.integers(0, 2**40)
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | SEQUENCES
    | st.floats(allow_nan=False, allow_infinity=False)
    | STREAMS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STREAMS, inner, max_size=3),
    max_leaves=8,
)


@given(stream=STREAMS, sequence=SEQUENCES)
def test_a_buffer_key_says_stream_and_sequence(stream: str, sequence: int) -> None:
    key = buffer_key(stream, sequence)
    assert split_buffer_key(key) == (stream, sequence)
    assert BUFFERS[0] <= key < BUFFERS[1]


@given(stream=STREAMS, one=SEQUENCES, other=SEQUENCES)
def test_buffer_keys_of_a_stream_sort_like_its_sequences(stream: str, one: int, other: int) -> None:
    assert (buffer_key(stream, one) < buffer_key(stream, other)) == (one < other)


@given(one=STREAMS, other=STREAMS, sequence=SEQUENCES)
def test_keys_of_different_streams_and_purposes_differ(one: str, other: str, sequence: int) -> None:
    keys = {progress_key(one), progress_key(other), buffer_key(one, sequence), COUNTS}
    keys.add(buffer_key(other, sequence))
    assert len(keys) == (3 if one == other else 5)


@given(last=SEQUENCES)
def test_a_stream_that_is_merely_in_order_costs_its_number(last: int) -> None:
    row = encode_progress(last, None)
    assert row == str(last).encode()
    assert decode_progress(row) == (last, None)


@given(last=SEQUENCES, state=st.dictionaries(STREAMS, JSON, max_size=3))
def test_state_is_written_beside_the_progress(last: int, state: dict[str, object]) -> None:
    progress, raw = decode_progress(encode_progress(last, orjson.dumps(state)))
    assert progress == last
    assert raw is not None
    assert orjson.loads(raw) == state


@given(
    last=SEQUENCES,
    skipped=st.lists(st.tuples(SEQUENCES, SEQUENCES), max_size=4),
    state=st.none() | st.just(b'{"a":1}'),
)
def test_progress_is_read_back_without_its_waiting_events(
    last: int, skipped: list[tuple[int, int]], state: bytes | None
) -> None:
    progress = Progress(last, skipped=tuple(skipped))
    found, raw = decode_progress(encode_progress(progress, state))
    assert raw == state
    assert found == (progress if skipped else last)


@given(last=SEQUENCES, since=st.integers(0, 2**50), spilled=st.integers(1, 5))
def test_progress_that_waits_keeps_the_time_since_it_does(
    last: int, since: int, spilled: int
) -> None:
    row = encode_progress(Progress(last, spilled=spilled, since=since), None)
    found, _ = decode_progress(row)
    assert last_of(found) == last
    assert (found.since if isinstance(found, Progress) else 0) == since


@given(
    last=SEQUENCES,
    below=st.lists(st.integers(0, 2**64 - 1), max_size=4),
    closed=st.none() | st.integers(0, 2**50),
)
def test_progress_remembers_what_settled_and_that_it_is_closed(
    last: int, below: list[int], closed: int | None
) -> None:
    progress = Progress(last, recent=tuple(last - each for each in below), closed=closed)
    found, _ = decode_progress(encode_progress(progress, None))
    assert found == (progress if below or closed is not None else last)


@given(last=SEQUENCES, held=st.booleans(), retry=RETRIES)
def test_progress_that_is_held_says_so_and_when_it_is_tried_again(
    last: int, held: bool, retry: PendingRetry | None
) -> None:
    row = encode_progress(Progress(last, held=held, retry=retry), None)
    found, _ = decode_progress(row)
    assert found == (Progress(last, held=held, retry=retry) if held or retry else last)
    assert (b'"held":true' in row, b"retry" in row) == (held, retry is not None)


@given(
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=60),
    headers=st.lists(st.tuples(STREAMS, st.binary(max_size=8)), max_size=3),
    arrived=st.integers(0, 2**50),
    timestamp=st.integers(-1, 2**50),
    offset=st.integers(0, 2**62),
)
def test_a_waiting_message_is_read_back_byte_by_byte(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes]],
    arrived: int,
    timestamp: int,
    offset: int,
) -> None:
    message = Record("orders", 3, offset, key, value, tuple(headers), timestamp)
    assert decode_message(encode_message(message, arrived)) == (message, arrived)


@given(counts=st.builds(Counts, *[st.integers(0, 2**62)] * 9))
def test_counts_are_read_back(counts: Counts) -> None:
    assert decode_counts(encode_counts(counts)) == counts


@pytest.mark.parametrize("row", [None, b"{}"])
def test_counts_that_are_not_there_are_zero(row: bytes | None) -> None:
    assert decode_counts(row) == Counts()


def test_counts_of_a_later_version_are_read_by_an_earlier_one() -> None:
    assert decode_counts(orjson.dumps({"received": 2, "elsewhere": 1})) == Counts(received=2)


def test_a_stream_that_failed_before_rebuilds_told_what_was_sent_is_read_still() -> None:
    row = b'{"last":9,"skipped":[[3,4]],"failed":[5,7],"state":{}}'
    assert decode_progress(row) == (Progress(9, skipped=((3, 4),), failed=(5, 7)), b"{}")
    progress = Progress(9, failed=(5, 7), sent=(7,), anew=12)
    assert decode_progress(encode_progress(progress, None)) == (progress, None)
    began = Progress(9, skipped=((1, 4), (6, 6)), below=((1, 4),))
    assert decode_progress(encode_progress(began, None)) == (began, None)
    dropped = Progress(0, anew=12)
    assert decode_progress(encode_progress(dropped, None)) == (dropped, None)
