"""The types of columns: what a handler yields for them, and how a row change says it in JSON.

| declared | what a handler yields | in a row change |
|---|---|---|
| `str`, `int`, `float`, `bool` | the same | as JSON has them |
| `Decimal`, `decimal(…)` | `Decimal`, or an int | `"12.3"`: no exponent, no zeros behind |
| `datetime` | an aware one | `"2026-01-31T12:00:00.000000Z"`: UTC, always with microseconds |
| `date` | the same | `"2026-01-31"` |
| `bytes` | the same | Base64, with padding |
| `dict`, `list` | what JSON can hold | as JSON has them |

A row change does not say of which type a value is: the column's declaration says how to read it. A
value has one way to be written, so that equal values are equal text.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from typing import Any

import orjson

from topology.model.errors import DeclarationError, RefusedValue
from topology.model.json_numbers import finite
from topology.model.printable import printable
from topology.model.unwritable import culprit, remedy
from topology.model.value_parts import parts_of

MAX_PRECISION = 38
"""Digits of a decimal number that every read store holds: Delta Lake's limit."""
_WIDEST = 1_000
"""Digits with which a decimal number is written at all; no column holds nearly as many."""

OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
"""How handlers' outputs are written as JSON."""
TEXT_KEYS = OPTIONS & ~orjson.OPT_NON_STR_KEYS
"""The same where all keys are texts, as nearly all are: no two can be one."""
ROW_OPTIONS = OPTIONS | orjson.OPT_PASSTHROUGH_DATETIME
"""How row changes are, together with `as_text`."""
_ROW_TEXT_KEYS = ROW_OPTIONS & ~orjson.OPT_NON_STR_KEYS

_dumps = orjson.dumps
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)"
    r"(?:\.([0-9]{1,6})0*)?([Zz]|[-+][0-9]{2}:[0-9]{2})?"
)
_HEXADECIMAL = re.compile(r"\\x([0-9a-fA-F]{2})*")


@dataclass(frozen=True, slots=True)
class Digits:
    """The type of a column of decimal numbers; see `decimal`."""

    precision: int = MAX_PRECISION
    scale: int = 18

    @property
    def __name__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


ColumnType = type | Digits
"""One of TYPES, or `decimal(…)`."""
TYPES = (str, int, float, bool, Decimal, datetime, date, bytes, dict, list)
KEY_TYPES = (str, int, float, bool, Decimal, datetime, date, bytes)


def decimal(precision: int, scale: int) -> Digits:
    """The type of a column of exact numbers. `Decimal` alone is `decimal(38, 18)`.

    Numbers are never rounded: one that does not fit is refused.

    Args:
        precision: the number of digits, from 1 to 38.
        scale: how many of them are after the point, from 0 to `precision`.

    Raises:
        DeclarationError: a value is out of its range.
    """
    whole = precision.__class__ is int and scale.__class__ is int
    if not whole or not 1 <= precision <= MAX_PRECISION or not 0 <= scale <= precision:
        raise DeclarationError(
            f"decimal({precision!r}, {scale!r}): give the digits of a number, 1 to "
            f"{MAX_PRECISION}, and how many of them are after the point, as in decimal(18, 2)"
        )
    return Digits(precision, scale)


# How a row change says a value.


def as_text(value: Any) -> str:
    """What JSON has no type for, as text. Raises TypeError, RefusedValue."""
    if isinstance(value, datetime):
        return _moment_text(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return _decimal_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    raise TypeError(type(value).__name__)


def encoded(body: dict[str, Any], changes: Iterable[Any]) -> bytes:
    """A record of row changes as JSON. body: the rest of it. changes: as a handler yielded them.

    Raises RefusedValue, which names the column, for a value that JSON would not hold or would
    replace by null.
    """
    # orjson takes twice as long for a dataclass as it takes to make a dictionary, and for that.
    said: list[dict[str, Any]] = []
    body["changes"] = said
    for change in changes:
        if change.op == "upsert":
            said.append(
                {"table": change.table, "key": change.key, "values": change.values, "op": "upsert"}
            )
        else:
            said.append({"table": change.table, "key": change.key, "op": change.op})
    try:
        value = _dumps(body, as_text, _ROW_TEXT_KEYS)
    except TypeError:
        value = _encoded_otherwise(body, changes)
    # orjson writes NaN and infinity as null. To count nulls is quicker than to look at each value.
    nulls = value.count(b"null")
    if nulls and nulls != _nones(changes):
        check_finite(changes)
    return value


def _encoded_otherwise(body: dict[str, Any], changes: Iterable[Any]) -> bytes:
    """The same of what has keys that are no texts, of which two may be one in JSON."""
    try:
        value = _dumps(body, as_text, ROW_OPTIONS)
    except TypeError:
        raise _culprit(changes) from None
    for change in changes:
        for what, part in (("key", change.key), ("values", getattr(change, "values", None))):
            if (found := alike_keys(part)) is not None:
                raise RefusedValue(
                    f"table {printable(change.table)!r}: {what}: {found}; name each by a text of "
                    "its own"
                )
    return value


def alike_keys(value: Any, options: int = ROW_OPTIONS) -> str | None:
    """Which keys of a dictionary in `value` are one in JSON; None if none are.

    options: with which orjson writes it.
    """
    if isinstance(value, dict):
        named: dict[str, Any] = {}
        for key in value:
            (name,) = orjson.loads(orjson.dumps({key: 0}, option=options))
            if name in named:
                return f"the keys {_shown(named[name])} and {_shown(key)} are one in JSON"
            named[name] = key
    inner = (alike_keys(part, options) for _, part in parts_of(value))
    return next((found for found in inner if found is not None), None)


def _nones(changes: Iterable[Any]) -> int:
    """How many columns are set to None."""
    found = 0
    try:
        for change in changes:
            if change.op == "upsert":
                found += [*change.values.values()].count(None)
        return found
    except (TypeError, ValueError):  # of values that are compared in a way of their own
        return -1


def check_finite(changes: Iterable[Any]) -> None:
    """Raise RefusedValue if there is a NaN or an infinity in row changes."""
    for table, column, value in _columns(changes):
        if column is None:
            raise RefusedValue(f"table {table!r}: column None has no name; name columns by texts")
        if not finite(value):
            raise RefusedValue(
                f"table {table!r}: column {column!r}: {printable(value)} is no number that a table "
                "holds; yield None where there is none"
            )


def _culprit(changes: Iterable[Any]) -> RefusedValue:
    """What to say of row changes that cannot be written."""
    for table, column, value in _columns(changes):
        try:
            _row_dumps({column: value})
        except TypeError as error:
            where = f"table {printable(table)!r}: column {printable(column)!r}: "
            return RefusedValue(where + _said(value, error))
    return RefusedValue("the row changes cannot be written as JSON")


def _columns(changes: Iterable[Any]) -> Iterator[tuple[str, Any, Any]]:
    """(table, column, value) of all that row changes name, keys first."""
    for change in changes:
        for part in (change.key, getattr(change, "values", None) or {}):
            for column, value in part.items():
                yield change.table, column, value


def _said(value: Any, error: TypeError) -> str:
    if isinstance(error.__cause__, RefusedValue):
        return str(error.__cause__)
    told = f"{_shown(value)} cannot be written as JSON: {error}"
    if value.__class__ is int:
        return f"{told}; yield a Decimal where the column is of Decimal, or a text"
    _, what, why = culprit(value, _row_dumps)
    return f"{told}; {remedy(what, why)}"


def _row_dumps(part: Any) -> bytes:
    return orjson.dumps(part, default=as_text, option=ROW_OPTIONS)


def _moment_text(value: datetime) -> str:
    if value.utcoffset() is None:
        raise RefusedValue(
            f"{value} has no time zone; yield an aware datetime, as in "
            "value.replace(tzinfo=UTC) where it is UTC"
        )
    if getattr(value, "nanosecond", 0):  # of pandas
        raise RefusedValue(f"{value} has nanoseconds; a column holds microseconds, so round it")
    try:
        utc = value.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise RefusedValue(f"{value} is in UTC outside of the years 1 to 9999") from None
    return utc.isoformat(timespec="microseconds") + "Z"


def _decimal_text(value: Decimal) -> str:
    if not value.is_finite():
        raise RefusedValue(
            f"{value} is no number that a table holds; yield None where there is none"
        )
    if value.is_zero():
        return "0"
    if abs(value.adjusted()) > _WIDEST:
        raise RefusedValue(f"{value} has more digits than any column holds")
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


# How it is read.


def read_decimal(value: Any, kind: Digits) -> Decimal:
    """The number, with `scale` digits after the point. Raises ValueError for what does not fit."""
    if value.__class__ is int or (
        value.__class__ is str and len(value) <= _WIDEST and _DECIMAL.fullmatch(value)
    ):
        number = Decimal(value)
    else:
        exact = "; a float is not exact, so yield Decimal" if value.__class__ is float else ""
        raise ValueError(f"{_shown(value)} is no {kind.__name__}{exact}")
    try:
        found = number.quantize(*_quantum(kind))
    except Inexact:
        raise ValueError(
            f"{_shown(value)} has more than {kind.scale} digits after the point; round it in the "
            "handler, or declare more digits as decimal(precision, scale)"
        ) from None
    except InvalidOperation:
        raise ValueError(
            f"{_shown(value)} has more than {kind.precision - kind.scale} digits before the point; "
            "declare more digits as decimal(precision, scale)"
        ) from None
    return found if found else found.copy_abs()


@lru_cache
def _quantum(kind: Digits) -> tuple[Decimal, None, Context]:
    context = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])
    return Decimal(1).scaleb(-kind.scale), None, context


def read_datetime(value: Any) -> datetime:
    """The moment, in UTC. Takes RFC 3339 with any offset. Raises ValueError."""
    found = _DATETIME.fullmatch(value) if value.__class__ is str else None
    if found is None:
        raise ValueError(
            f"{_shown(value)} is no datetime with at most microseconds, such as "
            "'2026-01-31T12:00:00.000000Z'; yield an aware datetime"
        )
    day, clock, fraction, zone = found.groups()
    if zone is None:
        raise ValueError(
            f"{_shown(value)} has no time zone; yield an aware datetime, or say Z or an offset"
        )
    try:
        moment = datetime.fromisoformat(
            f"{day}T{clock}{'.' + fraction if fraction else ''}{zone.upper()}"
        )
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{_shown(value)} is no datetime: {error}") from None


def read_date(value: Any) -> date:
    """The day. Raises ValueError."""
    if value.__class__ is not str or not _DATE.fullmatch(value):
        raise ValueError(f"{_shown(value)} is no date such as '2026-01-31'; yield a date")
    try:
        return date.fromisoformat(value)
    except ValueError as error:
        raise ValueError(f"{_shown(value)} is no date: {error}") from None


def read_bytes(value: Any) -> bytes:
    r"""The bytes, of Base64 or of PostgreSQL's `\x…`, which is none. Raises ValueError."""
    try:
        if value.__class__ is str and _HEXADECIMAL.fullmatch(value):
            return bytes.fromhex(value[2:])
        found = b64decode(value if value.__class__ is str else b"=", validate=True)
        if b64encode(found).decode() == value:
            return found
    except (NoBase64, ValueError):
        pass
    raise ValueError(f"{_shown(value)} is no bytes in Base64; yield bytes")


def _shown(value: Any) -> str:
    """A value for an error, even one that has no text: an int may be too large, a list too deep."""
    try:
        return printable(repr(value), 100)
    except Exception:
        size = f" of {value.bit_length()} bits" if isinstance(value, int) else ""
        return f"{type(value).__name__}{size}, too large or too deep to be shown,"
