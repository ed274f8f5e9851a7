"""Values of each type that a column can be declared with: edges, and strategies."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import orjson
from hypothesis import strategies as st

from stores.sinks import OutputRecord
from stores.sinks.contract.example_records import TOPIC
from topology.model.change_json import encoded
from topology.model.changes import Delete, Upsert
from topology.model.column_types import decimal
from topology.model.table import Table

MONEY = decimal(12, 2)
COLUMNS: dict[str, Any] = {
    **{"text": str, "number": int, "real": float, "flag": bool},
    **{"exact": Decimal, "money": MONEY, "at": datetime, "day": date, "raw": bytes},
    **{"doc": dict, "list": list},
}
TYPED = Table("typed", key={"id": int}, columns=COLUMNS)

PLUS_14 = timezone(timedelta(hours=14))
EDGES: dict[str, list[Any]] = {
    "text": ["", "x", "null", '"', "\\u0000", "ümläut 表 🦆", "a\nb\tc\r", "x" * 5_000],
    "number": [0, -(2**63), 2**63 - 1],
    "real": [0.0, -1.5, 1e308, 5e-324, 0.1, 2.0**53 + 2],
    "flag": [True, False],
    "exact": [
        *(Decimal(0), Decimal("0.00"), Decimal("-0"), Decimal("1E+19"), Decimal("12.300")),
        *(Decimal("0.000000000000000001"), Decimal("-99999999999999999999.999999999999999999")),
        Decimal("0.1"),
        7,
    ],
    "money": [Decimal("0.01"), Decimal("-9999999999.99"), Decimal("1.2"), Decimal("3E2")],
    "at": [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1582, 10, 10, 1, 2, 3, 4, tzinfo=UTC),
        datetime(1899, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
        datetime(2026, 1, 1, 3, 4, 5, 678901, tzinfo=PLUS_14),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ],
    "day": [date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10), date(2024, 2, 29)],
    "raw": [b"", b"\0", bytes(range(256)), b"\\x00", b"x" * 5_000],
    "doc": [
        {},
        {"a": None},
        {"big": [4.11872465833267e16, -1e22, 1.5e300, 1e-300]},
        {"": {"x": [1, 2.5, "ü", True]}},
        {"n": 1e300, "i": 2**63 - 1},
    ],
    "list": [[], [None], [[1], {"a": []}], [0.1, 1e-7, -0.5, 1e16], ["\\u0000", "null"]],
}
"""Column → values that every read store keeps as they are."""

BAD: list[tuple[str, Any, str]] = [
    ("number", 2**63, "64 bits"),
    ("number", 1.5, "no int"),
    ("number", "1", "no int"),
    ("real", "NaN", "no float"),
    ("real", 2**53 + 1, "more than 53 bits; declare the column as int"),
    ("flag", "yes", "no bool"),
    ("exact", 1.5, "a float is not exact"),
    ("exact", "many", "no decimal"),
    ("exact", True, "no decimal"),
    ("exact", "NaN", "no decimal"),
    ("exact", "1e20", "more than 20 digits before the point"),
    ("exact", "0.1234567890123456789", "more than 18 digits after the point"),
    ("money", "1.234", "more than 2 digits after the point; round it"),
    ("money", "99999999999.99", "more than 10 digits before the point"),
    ("money", "1e999", "more than 10 digits before the point"),
    ("at", "2026-01-01T00:00:00", "no time zone"),
    ("at", "2026-01-01", "no datetime"),
    ("at", "2026-02-30T00:00:00Z", "no datetime"),
    ("at", "2026-01-01T00:00:00.1234567Z", "at most microseconds"),
    ("at", "0001-01-01T00:00:00+14:00", "no datetime"),
    ("at", 1_700_000_000, "no datetime"),
    ("day", "2026-01-01T00:00:00Z", "no date"),
    ("day", "2026-02-30", "no date"),
    ("day", 20260101, "no date"),
    ("raw", "not base64!", "no bytes"),
    ("raw", "QR==", "no bytes"),
    ("raw", "QQ", "no bytes"),
    ("raw", [1], "no bytes"),
    ("doc", [1], "no dict"),
    ("doc", "{}", "no dict"),
    ("list", {"a": 1}, "no list"),
    ("list", 5, "no list"),
]
"""(column, what JSON says of it, a part of the reason why it cannot be kept)."""

_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=6,
)


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda n: Decimal(n).scaleb(-scale))


def _exact() -> st.SearchStrategy[Decimal]:
    # `scaleb` rounds to the context's 28 digits; a text does not.
    return st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-18"))


STRATEGIES: dict[str, st.SearchStrategy[Any]] = {
    "text": _text,
    "number": st.integers(-(2**63), 2**63 - 1),
    "real": st.floats(allow_nan=False, allow_infinity=False),
    "flag": st.booleans(),
    "exact": _exact(),
    "money": _decimals(12, 2),
    "at": st.datetimes(timezones=st.just(UTC)),
    "day": st.dates(),
    "raw": st.binary(max_size=20),
    "doc": st.dictionaries(_text, _json, max_size=3),
    "list": st.lists(_json, max_size=3),
}
KEYS = [column for column in COLUMNS if column not in ("real", "doc", "list")]


def record_of(offset: int, *changes: Upsert | Delete, partition: int = 0) -> OutputRecord:
    """The record of what a handler yields."""
    body = {"view": "v", "stream": f"s{partition}", "sequence": offset, "changes": changes}
    return TOPIC, partition, offset, encoded(body, changes)


def raw_record(offset: int, column: str, value: Any) -> OutputRecord:
    """A record with a value as JSON has it, whoever wrote it."""
    change = {"op": "upsert", "table": "typed", "key": {"id": offset}, "values": {column: value}}
    body = {"view": "v", "stream": "raw", "sequence": offset, "changes": [change]}
    return TOPIC, 0, offset, orjson.dumps(body)


def sets(rows: Iterable[dict[str, Any]]) -> list[Upsert]:
    """Upserts of rows of the table `typed`."""
    return [
        Upsert("typed", {"id": row["id"]}, {c: v for c, v in row.items() if c != "id"})
        for row in rows
    ]


def edge_rows() -> list[dict[str, Any]]:
    """Rows in which every edge value comes."""
    longest = max(map(len, EDGES.values()))
    return [
        {"id": at, **{column: values[at % len(values)] for column, values in EDGES.items()}}
        for at in range(longest)
    ]
