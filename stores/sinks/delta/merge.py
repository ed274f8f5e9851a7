"""The statements that write row changes into a Delta table."""

from collections.abc import Mapping
from datetime import date, datetime

from stores.sinks.columns import Kind
from stores.sinks.delta.rows import DELETE, RESET, Bounds, MergePlan
from stores.sinks.schema import TableState
from topology.model.column_types import Digits

_MADE: Mapping[Kind, str] = {datetime: "timestamp_micros({})", date: "date_from_unix_date({})"}
"""What makes a moment and a day of the number that a batch has of them."""
_NUMBERED: Mapping[Kind, str] = {datetime: "unix_micros({})", date: "unix_date({})"}
"""And the other way round."""
APP = "sequitur"
"""The application id that the versions of commits are counted by."""
THERE = "sequitur: rows are there already, so the batch is merged"
"""What an INSERT says that finds one of its rows in the table."""

_TYPES: Mapping[Kind, str] = {int: "BIGINT", float: "DOUBLE"}


def merge_sql(
    target: str, view: str, table: TableState, plan: MergePlan, types: Mapping[str, str]
) -> str:
    """The MERGE. types: of columns that were made by others, which texts are cast to."""
    names = [quoted(column) for column in plan.columns]
    values = [
        _cast(f"s.v{number}", column, types[column])
        if table.columns[column] is object
        else typed(f"s.v{number}", table.columns[column])
        for number, column in enumerate(plan.columns)
    ]
    key = [quoted(column) for column in table.key]
    parts = [f"MERGE INTO {target} AS t USING {view} AS s ON {_same(table, plan.bounds)}"]
    if DELETE in plan.ops:
        parts.append(f"WHEN MATCHED AND s.op = {DELETE} THEN DELETE")
    if names:
        sets = [
            f"t.{name} = CASE WHEN s.s{number} OR s.op = {RESET} THEN {value} ELSE t.{name} END"
            if plan.partly
            else f"t.{name} = {value}"
            for number, (name, value) in enumerate(zip(names, values, strict=True))
        ]
        parts.append(f"WHEN MATCHED THEN UPDATE SET {', '.join(sets)}")
    if plan.ops != {DELETE}:
        keys = _keys(table)
        parts.append(
            f"WHEN NOT MATCHED AND s.op <> {DELETE} "
            f"THEN INSERT ({', '.join([*key, *names])}) VALUES ({', '.join([*keys, *values])})"
        )
    return " ".join(parts)


def _cast(text: str, column: str, sql_type: str) -> str:
    """A text as a column that was made by others has it; of a nested type it has nulls only."""
    if not sql_type.startswith(("array", "map", "struct")):
        return f"CAST({text} AS {sql_type})"
    why = _literal(f"column {column!r} is of a type that takes no row change: {sql_type}", str)
    return f"IF({text} IS NULL, NULL, raise_error({why}))"


def insert_sql(
    target: str, view: str, table: TableState, plan: MergePlan, *, few: bool = True
) -> str:
    """An INSERT of upserts that fails, with THERE, where the table has one of the rows.

    It looks and writes in one transaction, as a MERGE does, but as one job, and where the rows are
    `few` without a shuffle.
    """
    names = [quoted(column) for column in (*table.key, *plan.columns)]
    keys = _keys(table)
    values = [
        typed(f"s.v{number}", table.columns[column]) for number, column in enumerate(plan.columns)
    ]
    # A few rows go to where the table's files are read, of which only the keys are.
    hint = "/*+ BROADCAST(s) */ " if few else ""
    there = (
        f"SELECT {hint}if(count(*) = 0, true, raise_error('{THERE}')) "
        f"FROM {target} AS t JOIN {view} AS s ON {_same(table, plan.bounds)}"
    )
    return (
        f"INSERT INTO {target} ({', '.join(names)}) "
        f"SELECT {', '.join([*keys, *values])} FROM {view} AS s WHERE ({there})"
    )


def behind_sql(target: str | None, view: str, limit: int) -> str:
    """The streams that the target has further than where they begin, or that are there twice."""
    if target is None:
        found = f"SELECT *, CAST(NULL AS BIGINT) AS epoch, 0L AS sequence FROM {view}"
    else:
        found = (
            f"SELECT s.*, p.epoch, p.sequence FROM {view} AS s LEFT JOIN {target} AS p "
            "ON p.topic = s.k0 AND p.view = s.k1 AND p.stream = s.k2"
        )
    first = "min(IF(first_epoch IS NULL, NULL, struct(first_epoch, first_sequence)))"
    last = "max(IF(epoch IS NULL, NULL, struct(epoch, sequence)))"
    return (
        "SELECT k0, k1, k2, max(epoch) AS epoch, max(sequence) AS sequence, count(*) AS times "
        f"FROM ({found}) GROUP BY k0, k1, k2 HAVING times > 1 OR {last} >= {first} LIMIT {limit}"
    )


def _same(table: TableState, bounds: Bounds) -> str:
    """That a row of the table t is one of s. Bounds tell which files cannot have any."""
    within = [
        f"t.{quoted(column)} BETWEEN {_literal(low, table.key[column])} "
        f"AND {_literal(high, table.key[column])}"
        for column, (low, high) in bounds.items()
    ]
    same = [
        f"t.{quoted(column)} = {key}" for column, key in zip(table.key, _keys(table), strict=True)
    ]
    return " AND ".join([*within, *same])


def _literal(value: object, kind: Kind) -> str:
    if kind is str:  # there is no character to escape in it like this
        return f"CAST(X'{str(value).encode().hex()}' AS STRING)"
    if isinstance(kind, Digits):
        return f"CAST('{value:f}' AS DECIMAL({kind.precision}, {kind.scale}))"
    return typed(str(value), kind) if kind in _MADE else f"CAST('{value!r}' AS {_TYPES[kind]})"


def typed(expression: str, kind: Kind) -> str:
    """A value of a batch as its column has it."""
    return _MADE[kind].format(expression) if kind in _MADE else expression


def selected(column: str, kind: Kind) -> str:
    """A column as it is read: a moment and a day as the number that a batch has of them."""
    name = quoted(column)
    return _NUMBERED[kind].format(name) if kind in _NUMBERED else name


def _keys(table: TableState) -> list[str]:
    return [typed(f"s.k{number}", kind) for number, kind in enumerate(table.key.values())]


def quoted(name: str) -> str:
    """A name as Spark takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
