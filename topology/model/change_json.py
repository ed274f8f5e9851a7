"""How row changes say values: as JSON, and as text what JSON has no type for."""

from base64 import b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any

import orjson

from topology.model.column_types import WIDEST, shown
from topology.model.errors import RefusedValue
from topology.model.json_numbers import finite
from topology.model.printable import printable
from topology.model.unwritable import culprit, remedy
from topology.model.value_parts import parts_of

OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
"""How handlers' outputs are written as JSON."""
TEXT_KEYS = OPTIONS & ~orjson.OPT_NON_STR_KEYS
"""The same where all keys are texts, as nearly all are: no two can be one."""
ROW_OPTIONS = OPTIONS | orjson.OPT_PASSTHROUGH_DATETIME
"""How row changes are, together with `as_text`."""
_ROW_TEXT_KEYS = ROW_OPTIONS & ~orjson.OPT_NON_STR_KEYS

_dumps = orjson.dumps


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
                return f"the keys {shown(named[name])} and {shown(key)} are one in JSON"
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
    told = f"{shown(value)} cannot be written as JSON: {error}"
    if value.__class__ is int:
        return f"{told}; yield a Decimal where the column is of Decimal, or a text"
    _, what, why = culprit(value, _row_dumps)
    return f"{told}; {remedy(what, why)}"


def _row_dumps(part: Any) -> bytes:
    return orjson.dumps(part, default=as_text, option=ROW_OPTIONS)


def _moment_text(value: datetime) -> str:
    if value.__class__ is datetime and value.tzinfo is UTC:
        return _utc_text(value)
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


@lru_cache(maxsize=4096)
def _utc_text(value: datetime) -> str:
    """That of a moment of UTC: rows of windows have few."""
    return value.isoformat(timespec="microseconds")[:-6] + "Z"


def _decimal_text(value: Decimal) -> str:
    if not value.is_finite():
        raise RefusedValue(
            f"{value} is no number that a table holds; yield None where there is none"
        )
    if value.is_zero():
        return "0"
    if abs(value.adjusted()) > WIDEST:
        raise RefusedValue(f"{value} has more digits than any column holds")
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
