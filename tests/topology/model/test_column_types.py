"""What a handler yields comes back as it was, and nothing becomes null or another value unseen."""

import dataclasses
import enum
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.sinks.columns import fit, kind_of, read
from stores.sinks.contract.values import COLUMNS, EDGES, STRATEGIES
from topology import DeclarationError, Delete, Table, Upsert, decimal
from topology.model.change_json import encoded
from topology.model.column_types import read_datetime
from topology.model.errors import RefusedValue

NAN, INFINITY = float("nan"), float("inf")


class Colour(enum.Enum):
    NONE = NAN


@dataclasses.dataclass
class Point:
    x: float


def record_of(value: Any) -> Any:
    """What a row change says of a value, as JSON has it."""
    change = Upsert("t", {"id": 1}, {"c": value})
    return orjson.loads(encoded({"changes": [change]}, [change]))["changes"][0]["values"]["c"]


def back(value: Any, column: str) -> Any:
    kind = kind_of(COLUMNS[column])
    return read(fit(record_of(value), kind), kind)


@pytest.mark.parametrize(("column", "value"), [(c, v) for c in EDGES for v in EDGES[c]])
def test_an_edge_value_comes_back(column: str, value: Any) -> None:
    assert back(value, column) == value


@pytest.mark.parametrize("column", STRATEGIES)
def test_any_value_comes_back(column: str) -> None:
    @given(STRATEGIES[column])
    def comes_back(value: Any) -> None:
        found = back(value, column)
        assert found == value
        assert type(found) is type(value)

    comes_back()


@given(st.integers(-(10**30), 10**30), st.integers(0, 8), st.integers(0, 5))
def test_equal_decimals_are_written_alike(number: int, scale: int, zeros: int) -> None:
    one = Decimal(f"{number}e-{scale}")
    other = Decimal(f"{number}{'0' * zeros}e-{scale + zeros}")
    assert one == other
    assert record_of(one) == record_of(other)


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)), st.integers(-14, 14))
def test_equal_moments_are_written_alike(moment: datetime, hours: int) -> None:
    one = moment.replace(tzinfo=UTC)
    other = one.astimezone(timezone(timedelta(hours=hours)))
    assert record_of(one) == record_of(other)
    assert len(record_of(one)) == len("2026-01-31T12:00:00.000000Z")


def test_the_encodings_are_those_that_are_documented() -> None:
    assert record_of(Decimal("1.20E+3")) == "1200"
    assert record_of(Decimal("-0.00")) == "0"
    assert record_of(datetime(2026, 1, 31, 12, tzinfo=UTC)) == "2026-01-31T12:00:00.000000Z"
    assert record_of(date(26, 1, 31)) == "0026-01-31"
    assert record_of(b"\x00\xff") == "AP8="
    assert record_of(time(1, 2)) == "01:02:00"
    assert record_of({"at": date(2026, 1, 31), "n": [Decimal("1.50")]}) == {
        "at": "2026-01-31",
        "n": ["1.5"],
    }


@pytest.mark.parametrize(
    "value",
    [
        *(NAN, INFINITY, -INFINITY, [1.0, NAN], {"a": {"b": (INFINITY,)}}, Colour.NONE, Point(NAN)),
        *(np.float64("nan"), np.float32("inf"), np.array([1.0, float("nan")])),
    ],
)
def test_nan_and_infinity_do_not_become_null_silently(value: Any) -> None:
    with pytest.raises(RefusedValue, match=r"table 't': column 'c'.*None where there is none"):
        record_of(value)
    change = Delete("t", {"k": NAN})
    with pytest.raises(RefusedValue, match="column 'k'"):
        encoded({"changes": [change]}, [change])


@pytest.mark.parametrize("value", [None, "null", [None], {"a": None, "b": 1.5}, Point(1.0), 2.5])
def test_a_null_that_is_meant_is_one(value: Any) -> None:
    assert record_of([value, None])[1] is None


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (datetime(2026, 1, 1), "has no time zone; yield an aware datetime"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "years 1 to 9999"),
        (Decimal("NaN"), "None where there is none"),
        (Decimal("-Infinity"), "None where there is none"),
        (Decimal("1e5000"), "more digits"),
        ("\ud800", "surrogates"),
        ({1, 2}, "cannot be written as JSON"),
        (2**64, "64-bit"),
        pytest.param(10**5000, "int of 16610 bits, too large or too deep to be shown", id="huge"),
        ({"a": 10**5000}, "dict, too large or too deep to be shown, cannot be written"),
        (nested(5_000), "cannot be written as JSON: Recursion limit reached"),
        (object(), "cannot be written as JSON"),
        ([datetime(2026, 1, 1)], "has no time zone"),
    ],
)
def test_what_cannot_be_written_is_refused_by_the_column_s_name(value: Any, reason: str) -> None:
    with pytest.raises(RefusedValue, match="table 't': column 'c': ") as error:
        record_of(value)
    assert reason in str(error.value)


ONE: Any = {1: 1, "1": 2}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (Upsert("t", ONE, {"v": 1}), "key: the keys 1 and '1'"),
        (Upsert("t", {"k": 1}, ONE), "values: the keys 1 and '1'"),
        (Upsert("t", {"k": 1}, {"v": {1: 2, "1": 3}}), "values: the keys 1 and '1'"),
        (Upsert("t", {"k": 1}, {"v": [{"a": ({None: 2, "null": 3},)}]}), "None and 'null'"),
        (Upsert("t", {"k": 1}, {"v": {True: 2, "true": 3}}), "the keys True and 'true'"),
        (Delete("t", ONE), "key: the keys 1 and '1'"),
    ],
)
def test_keys_that_are_one_in_json_lose_no_value_without_a_word(change: Any, where: str) -> None:
    with pytest.raises(RefusedValue, match=r"table 't'.* are one in JSON; name each") as error:
        encoded({"view": "board"}, [change])
    assert where in str(error.value)


def test_keys_that_are_no_texts_are_written_as_texts() -> None:
    assert record_of({1: 2, date(2026, 1, 31): 3}) == {"1": 2, "2026-01-31": 3}


@pytest.mark.parametrize(
    ("precision", "scale"), [(0, 0), (39, 0), (5, 6), (5, -1), ("5", 2), (5, 2.0), (True, 0)]
)
def test_digits_that_no_read_store_has_are_refused(precision: Any, scale: Any) -> None:
    with pytest.raises(DeclarationError, match=r"decimal\(18, 2\)"):
        decimal(precision, scale)


def test_tables_with_the_same_digits_are_the_same() -> None:
    one, other = (Table("t", {"id": int}, {"n": decimal(18, 2)}) for _ in range(2))
    assert one == other
    assert len({one, other}) == 1
    assert one != Table("t", {"id": int}, {"n": decimal(18, 3)})


@pytest.mark.parametrize("kind", [dict, list])
def test_a_key_is_not_nested(kind: type) -> None:
    with pytest.raises(DeclarationError, match=r"column 'id'.*a key cannot be nested"):
        Table("t", {"id": kind}, {})


@pytest.mark.parametrize("clock", ["24:00", "24:00:00", "25:00", "23:60", "23:59:60"])
def test_a_time_that_no_clock_has_is_no_datetime(clock: str) -> None:
    with pytest.raises(ValueError, match="is no datetime: "):
        read_datetime(f"2026-01-31T{clock}Z")
