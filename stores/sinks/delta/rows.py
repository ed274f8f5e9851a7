"""Row changes as an Arrow table, for a statement that writes them."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from stores.sinks.columns import JsonArray, JsonObject, Kind, Number, read
from stores.sinks.row_changes import Key, TableChanges, Values
from stores.sinks.schema import TableState
from topology.model.column_types import Digits

UPSERT, DELETE, RESET = 0, 1, 2
"""What a row is there for. RESET: the row is deleted and its values are set."""

_AT_ONCE = 1_000
"""Rows that are looked at column by column: as many as stay in the processor's cache."""
_BOUND_BYTES = 100
"""The longest text that is a bound; Delta Lake itself keeps less of it."""
_ARROW: dict[Kind, Any] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    Number: pa.float64(),
    bytes: pa.binary(),
    object: pa.string(),
    # As numbers, so that no time zone of Python's or Spark's has a say.
    datetime: pa.int64(),
    date: pa.int32(),
    JsonObject: pa.string(),
    JsonArray: pa.string(),
}
_FIRST_DAY = date(1970, 1, 1)
_FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Bounds = dict[str, tuple[Any, Any]]
"""Key column → its lowest and highest value in a batch."""


class MergePlan(NamedTuple):
    """columns: those that are set. partly: not by every row. ops: what rows are there for.

    bounds: of the key columns that have an order.
    """

    columns: list[str]
    partly: bool
    ops: frozenset[int]
    bounds: Bounds


def source(table: TableState, rows: TableChanges) -> tuple[pa.Table, MergePlan]:
    """(rows to write, what to do with them).

    The rows' columns: op; the key as k0, k1, …; values as v0, …; whether they are set as s0, ….
    """
    shapes = {tuple(values) for values in rows.values.values() if values is not None}
    columns = list(dict.fromkeys(column for shape in sorted(shapes) for column in shape))
    if rows.reset:  # what such a row does not set is null
        columns = list(table.columns)
    partly = len(shapes) > 1 or bool(rows.reset)
    found, items = [], iter(rows.values.items())
    while portion := list(islice(items, _AT_ONCE)):
        keys, values = zip(*portion, strict=True)
        arrays = _arrays(table, columns, keys, values, partly)
        arrays["op"] = pa.array([_op(key, rows) for key in keys], pa.int8())
        found.append(pa.table(arrays))
    records = pa.concat_tables(found).combine_chunks()
    ops = frozenset(pc.unique(records["op"]).to_pylist())
    return records, MergePlan(columns, partly, ops, _bounds(table, records))


def _op(key: Key, rows: TableChanges) -> int:
    if rows.values[key] is None:
        return DELETE
    return RESET if key in rows.reset else UPSERT


def _arrays(
    table: TableState,
    columns: Sequence[str],
    keys: Sequence[Key],
    values: Sequence[Values],
    partly: bool,
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, (kind, of_key) in enumerate(
        zip(table.key.values(), zip(*keys, strict=True), strict=True)
    ):
        found[f"k{number}"] = _array(of_key, kind)
    sets = [each or {} for each in values]
    for number, column in enumerate(columns):
        found[f"v{number}"] = _array([row.get(column) for row in sets], table.columns[column])
        if partly:
            found[f"s{number}"] = pa.array([column in row for row in sets], pa.bool_())
    return found


def _array(values: Sequence[Any], kind: Kind) -> Any:
    if kind is Number:
        values = [None if value is None else float(value) for value in values]
    elif kind is object:
        values = [None if value is None else _text(value) for value in values]
    elif kind is datetime or kind is date:
        values = [None if value is None else number_of(value) for value in values]
    return pa.array(values, arrow_type(kind))


def arrow_type(kind: Kind) -> Any:
    """The type that a batch has values of a kind in."""
    if isinstance(kind, Digits):
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW[kind]


def number_of(value: date) -> int:
    """Microseconds or days since 1970."""
    if isinstance(value, datetime):
        return (value - _FIRST_MOMENT) // _MICROSECOND
    return (value - _FIRST_DAY).days


def read_cell(value: Any, kind: Kind) -> Any:
    """A value that was read (moments and days as numbers), as a handler yielded it."""
    if kind is datetime:
        return _FIRST_MOMENT + value * _MICROSECOND
    if kind is date:
        return _FIRST_DAY + timedelta(days=value)
    return bytes(value) if kind is bytes else read(value, kind)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bounds(table: TableState, records: pa.Table) -> Bounds:
    found: Bounds = {}
    for number, (column, kind) in enumerate(table.key.items()):
        if kind in (int, float, str, datetime, date) or isinstance(kind, Digits):
            low, high = pc.min_max(records[f"k{number}"]).as_py().values()
            if kind is not str or max(len(low.encode()), len(high.encode())) <= _BOUND_BYTES:
                found[column] = low, high
    return found
