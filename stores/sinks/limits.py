"""What a read store does not take, and why a record that has it is refused."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from stores.sinks.columns import NAME_BYTES, Refused

EXACT = 2**53
"""The integers that a floating-point number holds, up to this and down to its negative."""


TABLE_BYTES = NAME_BYTES - len("__r01234567")
"""The longest name of a new table, so that the name of a rebuild's shadow fits behind it."""
KEY_BYTES = 2_600
"""Of a primary key in PostgreSQL: a little less than what always fits into a page of its index."""


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """What a store does not take.

    Attributes:
        name_bytes: the most bytes of a table's name.
        nul: whether text may hold NUL.
        exact: whether a `Number` holds every integer of 64 bits.
        key_bytes: the most bytes of a key's values together, None for any.
        key_columns: the most columns of a key, None for any.
        table_prefixes: how names of tables do not begin, since the store's own do.
        own_columns: what columns are not called, since every table of the store has some so called.
    """

    name_bytes: int = TABLE_BYTES
    nul: bool = True
    exact: bool = True
    key_bytes: int | None = None
    key_columns: int | None = None
    table_prefixes: tuple[str, ...] = ()
    own_columns: frozenset[str] = frozenset()


NO_LIMITS = StoreLimits()
POSTGRES_LIMITS = StoreLimits(
    nul=False,
    key_bytes=KEY_BYTES,
    key_columns=32,
    table_prefixes=("pg_",),
    own_columns=frozenset({"cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"}),
)
DELTA_LIMITS = StoreLimits(exact=False)
STRICTEST = replace(POSTGRES_LIMITS, exact=False)
"""What every store takes."""


def check_new_table(table: str, key: Collection[str], limits: StoreLimits) -> None:
    """Raise Refused for a table that a store does not make, by its name or its key's columns."""
    if len(table.encode()) > limits.name_bytes:
        raise Refused(
            f"table {table!r}: its name is longer than {limits.name_bytes} bytes; the rest of "
            f"{NAME_BYTES} is for what a rebuild adds to it"
        )
    if table.startswith(limits.table_prefixes):
        raise Refused(
            f"table {table!r}: names that start with {' or '.join(limits.table_prefixes)} are the "
            "database's own"
        )
    if limits.key_columns is not None and len(key) > limits.key_columns:
        raise Refused(
            f"table {table!r}: a key of {len(key)} columns; the store takes {limits.key_columns}"
        )
    for column in key:
        check_new_column(table, column, limits)


def check_new_column(table: str, column: str, limits: StoreLimits) -> None:
    """Raise Refused for a column that a store has in every table already."""
    if column in limits.own_columns:
        raise Refused(
            f"table {table!r}: column {column!r}: every table of the store has one so called"
        )


def check_exact(table: str, column: str, value: int) -> None:
    """Raise Refused for an integer that a floating-point number does not hold."""
    if not -EXACT <= value <= EXACT:
        raise Refused(
            f"table {table!r}: column {column!r}: {value} has more than 53 bits; declare the "
            "column as int"
        )


def check_key(table: str, values: Iterable[Any], limit: int) -> None:
    """Raise Refused if a primary key is longer than a store's index takes."""
    size = sum(
        len(value.encode() if value.__class__ is str else value)
        if value.__class__ is str or value.__class__ is bytes
        else 8
        for value in values
    )
    if size > limit:
        raise Refused(
            f"table {table!r}: a key of {size} bytes; the store takes {limit}. Let the key be a "
            "hash of it, and keep it in a column"
        )


def check_nul(table: str, column: str, value: Any) -> None:
    """Raise Refused if there is NUL in a text of a nested value."""
    parts = [value]
    while parts:  # deeper than Python's own stack
        part = parts.pop()
        if isinstance(part, str):
            if "\0" in part:
                raise Refused(
                    f"table {table!r}: column {column!r}: the store takes no text with NUL"
                )
        elif isinstance(part, dict):
            parts += (*part, *part.values())
        elif isinstance(part, list):
            parts += part


def refuse_nul(record: bytes | None, changes: Iterable[Any]) -> None:
    """Raise Refused if the row changes of a record hold NUL in a text."""
    # JSON has it in this one way, and it is quickly seen that there is none.
    if record is None or b"\\u0000" not in record:
        return
    for change in changes:
        for part in ("key", "values"):
            found = change.get(part) if isinstance(change, dict) else None
            for column, value in found.items() if isinstance(found, dict) else ():
                if isinstance(value, str) and "\0" in value:
                    raise Refused(f"column {column!r}: the store takes no text with NUL")
