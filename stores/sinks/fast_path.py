"""The quick way through a batch: records that fit the tables as they are, looked at by the field.

Most records are plain: row changes of tables and columns that are there, with values that fit. To
look at a field of thousands of them at once takes less than half of the time that one record after
the other does. What finds anything else here leaves all of them to the careful way, which is
`stores.sinks.reduction`'s: it knows what to refuse, why, and which columns to add.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from stores.sinks.columns import INT_MAX, INT_MIN, Kind, Number, Refused, fit
from stores.sinks.limits import EXACT, StoreLimits
from stores.sinks.schema import Schema, TableState

_FIELDS = itemgetter("view", "stream", "sequence", "changes")
_TABLE, _KEY, _OP, _VALUES = map(itemgetter, ("table", "key", "op", "values"))
_NUL = b"\\u0000"
_NONE: type = type(None)
_PLAIN: dict[Kind, set[type]] = {
    **{kind: {kind, _NONE} for kind in (int, float, str, bool)},
    Number: {int, float, _NONE},
}
"""Kind → the types of values that need no fitting."""
_NO_TYPES: set[type] = set()
_LONG = {str, bytes}
"""Kinds of keys that may be long."""


class Decoded(NamedTuple):
    """Fields of records, one as long as the other."""

    streams: list[tuple[str, str, str]]
    marks: list[tuple[int, int]]
    changes: Sequence[list[Any]]


class Fitted(NamedTuple):
    """Row changes of one table, in order. values: None where the row is to go."""

    table: str
    keys: list[tuple[Any, ...]]
    values: list[dict[str, Any] | None]


def decoded(topic: str, values: Sequence[bytes | None]) -> Decoded | None:
    """The fields of records, None if one of them is no record."""
    try:
        records = list(map(orjson.loads, values))  # type: ignore[arg-type]
        views, streams, sequences, changes = zip(*map(_FIELDS, records), strict=True)
        epochs = [record.get("epoch", 0) for record in records]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    if not (
        _all_of(str, views)
        and _all_of(str, streams)
        and _all_of(list, changes)
        and _integers(sequences)
        and _integers(epochs)
        and min(epochs) >= 0
    ):
        return None
    marks = list(zip(epochs, sequences, strict=True))
    return Decoded(list(zip(repeat(topic), views, streams, strict=False)), marks, changes)


def may_hold_nul(values: Iterable[bytes | None]) -> bool:
    """Whether a text in one of these records, which have values, may hold NUL."""
    return _NUL in b" ".join(values)  # type: ignore[arg-type]


def fitted(schema: Schema, of_records: Iterable[list[Any]]) -> list[Fitted] | None:
    """The row changes of records, by table, None if one of them does not fit."""
    changes = list(chain.from_iterable(of_records))
    try:
        return [
            _fitted(schema.tables[name], of_table, schema.limits)
            for name, of_table in _by_table(changes)
        ]
    except (KeyError, TypeError, Refused):
        return None


def _by_table(changes: list[Any]) -> Iterable[tuple[str, list[Any]]]:
    names = list(map(_TABLE, changes))
    if len(set(names)) == 1:
        return [(names[0], changes)]
    tables: dict[str, list[Any]] = defaultdict(list)
    for name, change in zip(names, changes, strict=True):
        tables[name].append(change)
    return tables.items()


def _fitted(table: TableState, changes: list[Any], limits: StoreLimits) -> Fitted:
    """Row changes of one table. Raises KeyError, TypeError or Refused where one is not plain."""
    ops = list(map(_OP, changes))
    if not set(ops) <= {"upsert", "delete"}:
        raise Refused("op")
    keys = _keys(table, list(map(_KEY, changes)), limits.key_bytes)
    upserts = [_VALUES(change) for change, op in zip(changes, ops, strict=True) if op == "upsert"]
    if not _all_of(dict, upserts):
        raise Refused("values")
    for columns, of_shape in _by_shape(upserts):
        for column in columns:
            _fit(table.columns[column], column, of_shape, limits)
    if len(upserts) == len(changes):
        return Fitted(table.name, keys, upserts)
    each: Iterator[dict[str, Any]] = iter(upserts)
    return Fitted(table.name, keys, [next(each) if op == "upsert" else None for op in ops])


def _keys(table: TableState, keys: list[Any], limit: int | None) -> list[tuple[Any, ...]]:
    if not table.key:  # which a table that was made by hand may lack
        raise Refused("key")
    if not _all_of(dict, keys) or set(map(len, keys)) != {len(table.key)}:
        raise Refused("key")
    if limit and 8 * len(table.key) > limit:  # What is no text counts as so much.
        raise Refused("key")
    columns = [list(map(itemgetter(column), keys)) for column in table.key]
    for at, (kind, values) in enumerate(zip(table.key.values(), columns, strict=True)):
        if kind not in _PLAIN:
            columns[at] = [fit(value, kind) for value in values]
        elif not (_integers(values) if kind is int else _all_of(kind, values)):
            raise Refused("key")
        # A character has four bytes at most.
        if (
            limit
            and (kind is str or kind is bytes)
            and 4 * len(keys[0]) * max(map(len, values)) > limit
        ):
            raise Refused("key")
    return list(zip(*columns, strict=True))


def _by_shape(upserts: list[Any]) -> Iterable[tuple[tuple[str, ...], list[Any]]]:
    """(columns, values that set them)."""
    shapes: dict[tuple[str, ...], list[Any]] = defaultdict(list)
    for values in upserts:
        shapes[tuple(values)].append(values)
    return shapes.items()


def _fit(kind: Kind, column: str, rows: list[Any], limits: StoreLimits) -> None:
    """Let a column's values be of its kind, in place. Raises Refused."""
    values = list(map(itemgetter(column), rows))
    types = set(map(type, values))
    if not types <= _PLAIN.get(kind, _NO_TYPES):
        for row, value in zip(rows, values, strict=True):
            row[column] = None if value is None else fit(value, kind)
    elif int in types:
        whole = values if len(types) == 1 else [v for v in values if v.__class__ is int]
        if not _integers(whole):
            raise Refused(column)
        if kind is Number and not limits.exact and not -EXACT <= min(whole) <= max(whole) <= EXACT:
            raise Refused(column)


def _all_of(kind: Kind, values: Iterable[Any]) -> bool:
    return set(map(type, values)) <= {kind}


def _integers(values: Collection[Any]) -> bool:
    """Whether all are integers of 64 bits."""
    return _all_of(int, values) and min(values) >= INT_MIN and max(values) <= INT_MAX
