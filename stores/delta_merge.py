"""Row changes as a table of rows and the MERGE that applies them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from stores.columns import Kind, Number
from stores.row_changes import Rows
from stores.schema import TableState

APP = "sequitur"
"""The application id that the versions of commits are counted by."""

_ARROW: dict[Kind, Any] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    Number: pa.float64(),
    bytes: pa.binary(),
    object: pa.string(),
}
_UPSERT, _DELETE, _RESET = 0, 1, 2


class Plan(NamedTuple):
    """columns: those that are set. partly: not by every row. ops: what rows are there for."""

    columns: list[str]
    partly: bool
    ops: frozenset[int]


def source(table: TableState, rows: Rows) -> tuple[pa.Table, Plan]:
    """(rows to merge, what to do with them).

    The rows' columns: op; the key as k0, k1, …; values as v0, …; whether they are set as s0, ….
    """
    sets = list(rows.values.values())
    ops = [_UPSERT if values is not None else _DELETE for values in sets]
    if rows.reset:
        for number, key in enumerate(rows.values):
            if key in rows.reset:
                ops[number] = _RESET
    shapes = set(map(tuple, filter(None.__ne__, sets)))
    columns = list(dict.fromkeys(column for shape in sorted(shapes) for column in shape))
    if rows.reset:  # what such a row does not set is null
        columns = list(table.columns)
    partly = len(shapes) > 1 or bool(rows.reset)
    found: dict[str, Any] = {"op": pa.array(ops, pa.int8())}
    for number, (kind, values) in enumerate(
        zip(table.key.values(), zip(*rows.values, strict=True), strict=True)
    ):
        found[f"k{number}"] = _array(values, kind)
    every: list[dict[str, Any]] = [values or {} for values in sets]
    for number, column in enumerate(columns):
        found[f"v{number}"] = _array([row.get(column) for row in every], table.columns[column])
        if partly:
            found[f"s{number}"] = pa.array([column in row for row in every], pa.bool_())
    return pa.table(found), Plan(columns, partly, frozenset(ops))


def merge_sql(
    target: str, view: str, table: TableState, plan: Plan, types: Mapping[str, str]
) -> str:
    """The statement. types: of columns that were made by others, which texts are cast to."""
    names = [quoted(column) for column in plan.columns]
    values = [
        f"CAST(s.v{number} AS {types[column]})"
        if table.columns[column] is object
        else f"s.v{number}"
        for number, column in enumerate(plan.columns)
    ]
    key = [quoted(column) for column in table.key]
    same = " AND ".join(f"t.{column} = s.k{number}" for number, column in enumerate(key))
    parts = [f"MERGE INTO {target} AS t USING {view} AS s ON {same}"]
    if _DELETE in plan.ops:
        parts.append(f"WHEN MATCHED AND s.op = {_DELETE} THEN DELETE")
    if names:
        sets = [
            f"t.{name} = CASE WHEN s.s{number} OR s.op = {_RESET} THEN {value} ELSE t.{name} END"
            if plan.partly
            else f"t.{name} = {value}"
            for number, (name, value) in enumerate(zip(names, values, strict=True))
        ]
        parts.append(f"WHEN MATCHED THEN UPDATE SET {', '.join(sets)}")
    if plan.ops != {_DELETE}:
        keys = [f"s.k{number}" for number in range(len(key))]
        parts.append(
            f"WHEN NOT MATCHED AND s.op <> {_DELETE} "
            f"THEN INSERT ({', '.join([*key, *names])}) VALUES ({', '.join([*keys, *values])})"
        )
    return " ".join(parts)


def _array(values: Any, kind: Kind) -> Any:
    if kind is Number:
        values = [None if value is None else float(value) for value in values]
    elif kind is object:
        values = [None if value is None else _text(value) for value in values]
    return pa.array(values, _ARROW[kind])


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def quoted(name: str) -> str:
    """A name as Spark takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
