"""The tables of a read store as a batch finds them and lets them grow."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stores.sinks.columns import (
    INT_MAX,
    INT_MIN,
    JSON,
    Kind,
    Number,
    Refused,
    checked_name,
    checked_table_name,
    fit,
    infer,
    infer_key,
    kind_of,
    named,
)
from stores.sinks.errors import StoreError
from stores.sinks.limits import (
    NO_LIMITS,
    StoreLimits,
    check_exact,
    check_key,
    check_new_column,
    check_new_table,
    check_nul,
)
from stores.sinks.sink import DeclaredTable
from topology.model.column_types import shown

MAX_TABLES = 1_000
MAX_COLUMNS = 900
"""Of one table, its key included. Both limits only stop names that are made from data."""


@dataclass(slots=True)
class TableState:
    """A table as the store has it, or will have it.

    Attributes:
        name: the table's name.
        key: column → kind, in the primary key's order.
        columns: column → kind, of the others.
        exists: whether it is in the store.
        folded: the columns' names by their folded form.
    """

    name: str
    key: dict[str, Kind]
    columns: dict[str, Kind]
    exists: bool = True
    folded: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folded = {name.casefold(): name for name in (*self.key, *self.columns)}

    def copied(self, name: str) -> "TableState":
        """Copy a table that is in the store, under another name.

        Args:
            name: the copy's name.
        """
        return TableState(name, dict(self.key), dict(self.columns))


class Schema:
    """The tables by name, and what a batch added to them.

    Attributes:
        tables: those in the store.
        taken: names of other things in it.
        limits: what the store does not take.
        added: (table, column) of new columns of existing tables, (table, None) of new tables; the
            store makes them before it writes.
    """

    def __init__(
        self,
        tables: Iterable[TableState],
        taken: Iterable[str] = (),
        limits: StoreLimits = NO_LIMITS,
    ) -> None:
        self.limits = limits
        self.tables = {table.name: table for table in tables}
        self.added: list[tuple[TableState, str | None]] = []
        self._folded = {name.casefold(): name for name in (*taken, *self.tables)}

    def declare(self, declared: DeclaredTable) -> None:
        """Make the store's table as declared.

        Args:
            declared: the declaration.

        Raises:
            StoreError: the table cannot become so.
        """
        name = declared.name
        key = {column: kind_of(each) for column, each in declared.key.items()}
        columns = {column: kind_of(each) for column, each in declared.columns.items()}
        table = self.tables.get(name)
        try:
            if table is None:
                table = self._create(name, key)
            self._check_declared(table, key, columns)
            for column, kind in columns.items():
                if column not in table.columns:
                    self._add(table, column, kind)
        except Refused as refused:
            raise StoreError(f"table {name!r} cannot be made as declared: {refused}") from None

    def _check_declared(
        self, table: TableState, key: dict[str, Kind], columns: dict[str, Kind]
    ) -> None:
        for what, has, wants in (("key", table.key, key), ("column", table.columns, columns)):
            differs = what == "key" and list(has) != list(wants)
            if differs or any(has.get(name, kind) != kind for name, kind in wants.items()):
                raise StoreError(
                    f"table {table.name!r} is in the store with {what} {_signature(has)}, but "
                    f"declared with {_signature(wants)}; use another read store or another table "
                    "name, or change the table by hand"
                )

    def locate(self, name: Any, key: Any) -> tuple[TableState, tuple[Any, ...]]:
        """Return the table and the primary key of a row change.

        The table is new where it has to be.

        Args:
            name: the table's name, as the record has it.
            key: the row's key, as the record has it.
        """
        if not isinstance(key, dict) or not key:
            raise Refused("a row change has no key")
        table = self.tables.get(name) if isinstance(name, str) else None
        if table is None:
            kinds = {
                checked_name("column", column): infer_key(value) for column, value in key.items()
            }
            table = self._create(name, kinds)
        kinds = table.key
        if len(key) != len(kinds):
            raise _other_key(table, key)
        found = []
        for column, kind in kinds.items():
            value = key.get(column)
            if value is None:
                raise _other_key(table, key)
            given: Any = value.__class__
            if given is not kind or (kind is int and not INT_MIN <= value <= INT_MAX):
                value = _fit(table, column, value, kind)
            found.append(value)
        if self.limits.key_bytes is not None:
            check_key(table.name, found, self.limits.key_bytes)
        return table, tuple(found)

    def fit(self, table: TableState, key: tuple[Any, ...], values: Any) -> dict[str, Any]:
        """Fit the values of an upsert to the columns, in place; new columns are added.

        A null of a column that is not there yet is left out: it says nothing of the column's kind.

        Args:
            table: the row's table.
            key: the row's primary key.
            values: column → value, as the record has them.
        """
        if not isinstance(values, dict):
            raise Refused("an upsert has no values")
        kinds = table.columns
        surplus = []
        for column, value in values.items():
            kind = kinds.get(column)
            given: Any = value.__class__
            if given is kind and (kind is not int or INT_MIN <= value <= INT_MAX):
                continue
            if kind is None:
                if column in table.key:
                    self._check_repeated(table, key, column, value)
                    surplus.append(column)
                    continue
                if value is None:
                    surplus.append(column)
                    continue
                kind = infer(value)
                self._add(table, column, kind)
            if value is not None:
                values[column] = fitted = _fit(table, column, value, kind)
                if kind is Number and not self.limits.exact and fitted.__class__ is int:
                    check_exact(table.name, column, fitted)
                if kind in JSON and not self.limits.nul and "\\u0000" in fitted:
                    check_nul(table.name, column, value)
        for column in surplus:
            del values[column]
        return values

    def undo(self, mark: int) -> None:
        """Take back what was added since a mark.

        Args:
            mark: the length of `added` at that time.
        """
        while len(self.added) > mark:
            table, column = self.added.pop()
            if column is None:
                del self.tables[table.name], self._folded[table.name.casefold()]
            else:
                del table.columns[column], table.folded[column.casefold()]

    def _create(self, name: Any, key: dict[str, Kind]) -> TableState:
        check_new_table(checked_table_name(name), key, self.limits)
        other = self._folded.get(name.casefold())
        if other is not None:
            raise Refused(f"table {name!r}: the store has {other!r} already")
        if len(self.tables) >= MAX_TABLES:
            raise Refused(f"table {name!r}: the store has {MAX_TABLES} tables, the limit")
        table = TableState(name, key, {}, exists=False)
        if len(table.folded) < len(key):
            raise Refused(f"table {name!r}: two key columns differ only in case")
        self.tables[name] = table
        self._folded[name.casefold()] = name
        self.added.append((table, None))
        return table

    def _add(self, table: TableState, column: str, kind: Kind) -> None:
        checked_name(f"table {table.name!r}: column", column)
        check_new_column(table.name, column, self.limits)
        other = table.folded.get(column.casefold())
        if other is not None:
            raise Refused(f"table {table.name!r}: columns {other!r} and {column!r}: one name")
        if len(table.folded) >= MAX_COLUMNS:
            raise Refused(f"table {table.name!r} has {MAX_COLUMNS} columns, the limit")
        table.columns[column] = kind
        table.folded[column.casefold()] = column
        self.added.append((table, column))

    def _check_repeated(
        self, table: TableState, key: tuple[Any, ...], column: str, value: Any
    ) -> None:
        kind, has = table.key[column], key[list(table.key).index(column)]
        if value is None or _fit(table, column, value, kind) != has:
            raise Refused(f"table {table.name!r}: values change the key column {column!r}")


def _fit(table: TableState, column: str, value: Any, kind: Kind) -> Any:
    try:
        return fit(value, kind)
    except Refused as refused:
        raise Refused(f"table {table.name!r}: column {column!r}: {refused}") from None


def _other_key(table: TableState, key: Mapping[str, Any]) -> Refused:
    return Refused(
        f"table {table.name!r}: key {shown(dict(key))}; its primary key is "
        f"({', '.join(table.key)}), none of it null"
    )


def _signature(columns: Mapping[str, Kind]) -> str:
    return "(" + ", ".join(f"{name} {named(kind)}" for name, kind in columns.items()) + ")"
