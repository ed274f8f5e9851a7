"""Columns and values as SQLite has them: what a type is called says how its text is read."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from stores.sinks.columns import JsonArray, JsonObject, Kind, Number, read
from topology.model.column_types import Digits

TYPES: Mapping[Kind, str] = {
    int: "INTEGER",
    float: "REAL",
    str: "TEXT",
    bool: "BOOLEAN",
    Number: "NUMERIC",
    # SQLite keeps as text what a type says that has TEXT in it.
    Decimal: "DECIMAL_TEXT({}, {})",
    datetime: "DATETIME_TEXT",
    date: "DATE_TEXT",
    JsonObject: "JSON_OBJECT_TEXT",
    JsonArray: "JSON_ARRAY_TEXT",
    bytes: "BYTES_BLOB",
}
BY_NUMBER = "sequitur_by_number"
"""The collation that orders decimal numbers, which are kept as text."""
_DIGITS = re.compile(r"DECIMAL_TEXT\((\d+), *(\d+)\)")
_OWN: dict[str, Kind] = {
    TYPES[kind]: kind for kind in (datetime, date, JsonObject, JsonArray, bytes)
}


def yielded(value: Any, kind: Kind) -> Any:
    """A value that SQLite has in a column of a kind, as a handler yielded it."""
    if kind is bool:
        return bool(value)
    if isinstance(kind, Digits):
        return Decimal(value)
    if kind is datetime:
        return datetime.fromisoformat(value).astimezone(UTC)
    return date.fromisoformat(value) if kind is date else read(value, kind)


def by_number(one: str, other: str) -> int:
    """Compare the texts of two decimal numbers; for `BY_NUMBER`."""
    here, there = Decimal(one), Decimal(other)
    return (here > there) - (here < there)


def plain_text(number: Decimal) -> str:
    """A decimal number as it is kept."""
    return format(number, "f")


def kind_of_type(sql_type: str) -> Kind:
    """The kind of a column by its type, as SQLite reads types: by what the name contains."""
    name = sql_type.upper()
    if name in _OWN:
        return _OWN[name]
    if digits := _DIGITS.fullmatch(name):
        return Digits(int(digits[1]), int(digits[2]))
    for part, kind in (
        *(("INT", int), ("CHAR", str), ("CLOB", str), ("TEXT", str), ("REAL", float)),
        *(("FLOA", float), ("DOUB", float), ("BOOL", bool), ("NUMERIC", Number)),
    ):
        if part in name:
            return kind
    return object
