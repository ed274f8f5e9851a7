"""A read-store table as a view declares it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from topology.model.column_types import KEY_TYPES, TYPES, ColumnType, Digits
from topology.model.errors import DeclarationError

NAME_BYTES = 63
"""The longest name that every read store takes: PostgreSQL's limit."""


@dataclass(frozen=True)
class Table:
    """A read-store table: its name, its primary key, and the other columns known beforehand.

    Columns that a view's row changes mention besides are added when they first come.

    Args:
        name: the table's name.
        key: column → type: str, int, float, bool, Decimal or `decimal(…)`, datetime, date, bytes.
        columns: column → type: one of these, dict or list.

    Raises:
        DeclarationError: a name or a type is wrong.
    """

    name: str
    key: Mapping[str, ColumnType]
    columns: Mapping[str, ColumnType]

    def __post_init__(self) -> None:
        _check_name("table", self.name)
        if self.name.startswith("_") or self.name.lower().startswith("sqlite_"):
            raise DeclarationError(
                f"table {self.name!r}: names that start with _ or sqlite_ are the read store's "
                "own; choose another"
            )
        for part in ("key", "columns"):
            object.__setattr__(self, part, _checked_columns(self.name, part, getattr(self, part)))
        if not self.key:
            raise DeclarationError(
                f"table {self.name!r}: the key is empty; name the primary key, as in "
                "key={'id': int}"
            )
        seen: dict[str, str] = {}
        for name in (*self.key, *self.columns):
            other = seen.get(name.casefold())
            if other is not None:
                raise DeclarationError(
                    f"table {self.name!r}: columns {other!r} and {name!r} have the same name "
                    "(a read store may ignore case); keep one, in key or in columns"
                )
            seen[name.casefold()] = name

    def __hash__(self) -> int:
        return hash((self.name, tuple(self.key), tuple(self.columns)))


def _checked_columns(table: str, part: str, columns: Any) -> dict[str, ColumnType]:
    """A copy, which nobody else changes."""
    if not isinstance(columns, Mapping):
        raise DeclarationError(
            f"table {table!r}: {part}={columns!r}; write column → type, as in {{'id': int}}"
        )
    for name, kind in columns.items():
        _check_name(f"table {table!r}: column", name)
        if kind.__class__ is not Digits and kind not in (KEY_TYPES if part == "key" else TYPES):
            nested = "; a key cannot be nested" if kind in TYPES else ""
            raise DeclarationError(
                f"table {table!r}: column {name!r} has type {getattr(kind, '__name__', kind)!r}"
                f"{nested}; use str, int, float, bool, Decimal or decimal(18, 2), datetime, date, "
                "bytes, or in columns also dict or list, which are kept as JSON"
            )
    return dict(columns)


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not 0 < _size(name) <= NAME_BYTES or "\0" in name:
        raise DeclarationError(
            f"{what} {name!r}: a name is a text of 1 to {NAME_BYTES} bytes in UTF-8, without NUL"
        )


def _size(name: str) -> int:
    try:
        return len(name.encode())
    except UnicodeEncodeError:
        return 0
