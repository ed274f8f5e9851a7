"""Timestamps as sequences: microseconds since 1970, whatever they were written in."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import Malformed
from topology.inspectors.normalise import sequence_number

MOMENT = 1_700_000_000_123_456
"""2023-11-14T22:13:20.123456Z."""


@pytest.mark.parametrize(
    "text",
    [
        "2023-11-14T22:13:20.123456Z",
        "2023-11-14 22:13:20.123456+00:00",
        "2023-11-14T22:13:20.123456",
        "2023-11-14T23:13:20.123456+01:00",
        "2023-11-14T22:13:20.123456789Z",
        " 2023-11-14T22:13:20,123456Z ",
        b"2023-11-14T22:13:20.123456Z",
        "20231114T221320.123456Z",
        "20231114T231320.123456+0100",
        "20231114 221320.123456",
        b"2023W462T221320.123456Z",
    ],
)
@pytest.mark.parametrize("kind", ["auto", "timestamp", "revision"])
def test_iso_times_of_one_moment_are_one_sequence(text: str | bytes, kind: Any) -> None:
    assert sequence_number(text, kind) == MOMENT


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        (1_700_000_000, 1_700_000_000_000_000),
        (1_700_000_000.123456, MOMENT),
        (1_700_000_000_123, 1_700_000_000_123_000),
        (1_700_000_000_123.456, MOMENT),
        (MOMENT, MOMENT),
        (1_700_000_000_123_456_789, MOMENT),
        ("1700000000", 1_700_000_000_000_000),
        ("1700000000.123456", MOMENT),
        ("1700000000123", 1_700_000_000_123_000),
        (b"1700000000123456", MOMENT),
        ("1700000000123456789", MOMENT),
        (0, 0),
        (-1, -1_000_000),
    ],
)
def test_epoch_times_are_told_apart_by_their_size(value: object, micros: int) -> None:
    assert sequence_number(value, "timestamp") == micros


@given(
    moment=st.datetimes(datetime(1975, 1, 1), datetime(2200, 1, 1)),
    offset=st.integers(-14 * 60, 14 * 60),
)
def test_a_moment_is_one_sequence_in_every_zone_and_unit(moment: datetime, offset: int) -> None:
    utc = moment.replace(tzinfo=UTC)
    micros = (utc - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    there = utc.astimezone(timezone(timedelta(minutes=offset)))

    assert sequence_number(there.isoformat()) == micros
    assert sequence_number(micros, "timestamp") == micros
    assert sequence_number(micros * 1000, "timestamp") == micros
    assert sequence_number(str(micros * 1000), "timestamp") == micros


@given(one=st.datetimes(), other=st.datetimes())
def test_times_order_as_they_passed(one: datetime, other: datetime) -> None:
    ordered = sequence_number(one.isoformat()) < sequence_number(other.isoformat())
    assert ordered == (one < other)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "",
        "yesterday",
        "nan",
        "inf",
        "1e30",
        float("nan"),
        float("-inf"),
        1e25,
        "2023-13-01",
        "2023-02-30T00:00:00Z",
        "2023-11-14T25:00:00",
        "2023-11-14T24:00:00Z",
        "2023-11-14 24:00",
        "20231114T240000Z",
        "2023-W46-2T24:00",
        "2023W46T24",
        "2023-11-14T22:13:60Z",
        b"\xff",
        [],
        {},
        10**6000,
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, int) else "int",
)
def test_what_is_no_time_is_malformed(value: object) -> None:
    with pytest.raises(Malformed, match="the sequence"):
        sequence_number(value, "timestamp")


@pytest.mark.parametrize("value", ["2023-11-14", "2023-11-14T22:13:20Z"])
def test_a_time_is_no_number_where_a_number_is_declared(value: str) -> None:
    with pytest.raises(Malformed, match="not a number"):
        sequence_number(value, "number")


def test_a_time_in_basic_form_is_told_from_a_number_and_from_other_text() -> None:
    assert sequence_number("20260131T120000Z") == sequence_number("2026-01-31T12:00:00Z")
    assert sequence_number("20260131T12") == sequence_number("20260131t1200")
    assert sequence_number("20260131") == 20_260_131
    for text in ("20261331T120000Z", "20260131T", "20260131x12", "20260131T120000Z1"):
        with pytest.raises(Malformed):
            sequence_number(text)
    with pytest.raises(Malformed, match="not a number"):
        sequence_number("20260131T120000Z", "number")
