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
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from typing import Any

from topology.model.errors import DeclarationError
from topology.model.printable import printable

MAX_PRECISION = 38
"""Digits of a decimal number that every read store holds: Delta Lake's limit."""
WIDEST = 1_000
"""Digits with which a decimal number is written at all; no column holds nearly as many."""

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


def read_decimal(value: Any, kind: Digits) -> Decimal:
    """The number, with `scale` digits after the point. Raises ValueError for what does not fit."""
    if value.__class__ is int or (
        value.__class__ is str and len(value) <= WIDEST and _DECIMAL.fullmatch(value)
    ):
        number = Decimal(value)
    else:
        exact = "; a float is not exact, so yield Decimal" if value.__class__ is float else ""
        raise ValueError(f"{shown(value)} is no {kind.__name__}{exact}")
    try:
        found = number.quantize(*_quantum(kind))
    except Inexact:
        raise ValueError(
            f"{shown(value)} has more than {kind.scale} digits after the point; round it in the "
            "handler, or declare more digits as decimal(precision, scale)"
        ) from None
    except InvalidOperation:
        raise ValueError(
            f"{shown(value)} has more than {kind.precision - kind.scale} digits before the point; "
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
            f"{shown(value)} is no datetime with at most microseconds, such as "
            "'2026-01-31T12:00:00.000000Z'; yield an aware datetime"
        )
    day, clock, fraction, zone = found.groups()
    if zone is None:
        raise ValueError(
            f"{shown(value)} has no time zone; yield an aware datetime, or say Z or an offset"
        )
    try:
        if clock.startswith("24"):  # which Python takes for the next day's 00 from 3.14 on
            raise ValueError("hour must be in 0..23")
        moment = datetime.fromisoformat(
            f"{day}T{clock}{'.' + fraction if fraction else ''}{zone.upper()}"
        )
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{shown(value)} is no datetime: {error}") from None


def read_date(value: Any) -> date:
    """The day. Raises ValueError."""
    if value.__class__ is not str or not _DATE.fullmatch(value):
        raise ValueError(f"{shown(value)} is no date such as '2026-01-31'; yield a date")
    try:
        return date.fromisoformat(value)
    except ValueError as error:
        raise ValueError(f"{shown(value)} is no date: {error}") from None


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
    raise ValueError(f"{shown(value)} is no bytes in Base64; yield bytes")


def shown(value: Any) -> str:
    """A value for an error, even one that has no text: an int may be too large, a list too deep."""
    try:
        return printable(repr(value), 100)
    except Exception:
        size = f" of {value.bit_length()} bits" if isinstance(value, int) else ""
        return f"{type(value).__name__}{size}, too large or too deep to be shown,"
