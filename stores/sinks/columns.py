"""Names and types of a read store's tables and columns, the same for every store.

A column has a kind: what its values are. A declared column has its declared kind; a column that is
inferred gets one from its first value that is not null. Values are fitted to the kind or refused:

| kind | takes | written as |
|---|---|---|
| `int` | integers of 64 bits, true and false as 1 and 0, 5.0 as 5 | integer |
| `float` | numbers; an int that a float holds exactly | floating point |
| `str` | anything; what is no text becomes its JSON | text |
| `bool` | true, false, 1, 0 | true or false |
| `Number` | integers of 64 bits and floating point | as it is |
| `Digits` | text of a number, integers; not rounded | decimal number of so many digits |
| `datetime`, `date`, `bytes` | their text | their own type |
| `JsonObject`, `JsonArray` | what is such a one | its JSON |
| `object` | anything | as it is, what is nested as JSON |

`Number` is inferred from a number; `object` is a type of a table that was made by hand. How row
changes say what JSON has no type for is in `topology.model.column_types`. What is fitted is of one
Python type per kind, the same for every store.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import orjson

from topology.model.column_types import (
    ColumnType,
    Digits,
    read_bytes,
    read_date,
    read_datetime,
    read_decimal,
    shown,
)

NAME_BYTES = 63
"""The longest name that every store takes: PostgreSQL's limit."""
INT_MIN, INT_MAX = -(2**63), 2**63 - 1


class Refused(ValueError):
    """A record that cannot be applied; the text is the reason, kept with the record."""


class Number:
    """The kind of a column that holds integers and floating point alike."""


class JsonObject:
    """The kind of a column that is declared as dict."""


class JsonArray:
    """The kind of a column that is declared as list."""


Kind = type | Digits
"""One of str, int, float, bool, datetime, date, bytes, Number, JsonObject, JsonArray, object, or
Digits."""
JSON: dict[Kind, type] = {JsonObject: dict, JsonArray: list}
_DECLARED: dict[ColumnType, Kind] = {Decimal: Digits(), dict: JsonObject, list: JsonArray}
_READ: dict[Kind, Callable[[Any], Any]] = {
    datetime: read_datetime,
    date: read_date,
    bytes: read_bytes,
}


def kind_of(declared: ColumnType) -> Kind:
    """The kind of a column that is declared with this type."""
    return _DECLARED.get(declared, declared)


def named(kind: Kind) -> str:
    """A kind in words: what it is declared as, where it can be."""
    return JSON.get(kind, kind).__name__.lower()


_NOTED: dict[str, Kind] = {
    named(kind): kind for kind in (datetime, date, bytes, JsonObject, JsonArray)
}
_DIGITS = re.compile(r"decimal\((\d+), (\d+)\)")


def noted(kind: Kind) -> str | None:
    """What a store notes of a column, so that `noted_kind` knows its kind again; None: nothing."""
    return named(kind) if isinstance(kind, Digits) or kind in _NOTED.values() else None


def noted_kind(note: str) -> Kind | None:
    """The kind that `noted` says this of, None for what somebody else has written."""
    digits = _DIGITS.fullmatch(note)
    return _NOTED.get(note) if digits is None else Digits(int(digits[1]), int(digits[2]))


def checked_name(what: str, name: object) -> str:
    """The name, if every store takes it when quoted. Raises Refused."""
    if not isinstance(name, str) or not 0 < len(name.encode()) <= NAME_BYTES or "\0" in name:
        raise Refused(f"{what} {name!r}: a name is a text of 1 to {NAME_BYTES} bytes without NUL")
    return name


def checked_table_name(name: object) -> str:
    """The name, if a table of the user's may have it. Raises Refused."""
    checked = checked_name("table", name)
    if checked.startswith("_") or checked.lower().startswith("sqlite_"):
        raise Refused(f"table {checked!r}: names that start with _ or sqlite_ are the store's own")
    return checked


def infer(value: Any) -> Kind:
    """The kind of a column whose first value is `value`, which is not None."""
    kind = value.__class__
    if kind is bool:
        return bool
    return Number if kind is int or kind is float else str


def infer_key(value: Any) -> Kind:
    """The kind of a key column whose first value is `value`. Raises Refused for null and nested."""
    kind: Kind = value.__class__
    if kind not in (str, int, float, bool):
        raise Refused(f"key value {shown(value)}: a key is text, number, true or false")
    return kind


def fit(value: Any, kind: Kind) -> Any:
    """The value (as JSON has it, not None) as a column of this kind holds it. Raises Refused."""
    given = value.__class__
    if given is int and not INT_MIN <= value <= INT_MAX and kind in (int, Number, object):
        raise Refused(f"{shown(value)} has more than 64 bits")
    if given is kind:
        return value
    if kind is str:
        return as_json(value)
    if kind is int:
        if given is bool:
            return int(value)
        if given is float and value.is_integer() and INT_MIN <= value < INT_MAX:
            return int(value)
    elif kind is float:
        if given is int:
            if value.bit_length() <= 1023 and float(value) == value:
                return float(value)
            raise Refused(f"{shown(value)} has more than 53 bits; declare the column as int")
    elif kind is bool:
        if given is int and value in (0, 1):
            return bool(value)
    elif kind is Number:
        if given is int or given is float:
            return value
    elif kind is object:
        return as_json(value) if given is dict or given is list else value
    elif kind in JSON:
        if given is JSON[kind]:
            return as_json(value)
    else:
        try:
            return read_decimal(value, kind) if isinstance(kind, Digits) else _READ[kind](value)
        except ValueError as error:
            raise Refused(str(error)) from None
    raise Refused(f"{shown(value)} is no {named(kind)}")


def read(stored: Any, kind: Kind) -> Any:
    """Return what a handler yielded, from what `fit` made of it.

    Args:
        stored: the value in the store.
        kind: the column's kind.
    """
    return orjson.loads(stored) if kind in JSON else stored


def as_json(value: Any) -> str:
    """A value that is no text, as text. Raises Refused: what is read may be nested too deep."""
    try:
        return orjson.dumps(value).decode()
    except TypeError as error:
        raise Refused(f"no JSON comes of it: {error}") from None


def sql_type(kind: Kind, types: Mapping[Kind, str]) -> str:
    """The type of a column. `types[Decimal]` says how many digits a number has."""
    if isinstance(kind, Digits):
        return types[Decimal].format(kind.precision, kind.scale)
    return types[kind]
