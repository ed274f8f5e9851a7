"""Names and columns as Delta Lake has them: folders, types, and comments that say the rest."""

import re
from datetime import date, datetime
from decimal import Decimal

from pyspark.sql.types import StructType

from stores.sinks.columns import JsonArray, JsonObject, Kind, Number, noted, noted_kind, sql_type
from stores.sinks.delta.merge import quoted
from stores.sinks.schema import TableState

_SQL_TYPES: dict[Kind, str] = {
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bool: "BOOLEAN",
    Number: "DOUBLE",
    Decimal: "DECIMAL({}, {})",
    datetime: "TIMESTAMP",
    date: "DATE",
    bytes: "BINARY",
    JsonObject: "STRING",
    JsonArray: "STRING",
}
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("long", "integer", "short", "byte"), int),
    **dict.fromkeys(("double", "float"), float),
    "string": str,
    "boolean": bool,
}
_NUMBER = "number"
_COMMENT = re.compile(r"(?:primary key (\d+))?(?:(?:^|: )(.*))?", re.DOTALL)
"""Comments of columns, by which they are known again: `primary key 1` is the key's first one,
`datetime` one that is declared so, and `primary key 1: datetime` both."""
_PLAIN = re.compile(r"[^ ,;{}()\n\t=]*")
"""Names that a Parquet file takes; others need names of their own in the files."""


def is_plain(name: str) -> bool:
    """Whether a column may have this name in the files, too."""
    return _PLAIN.fullmatch(name) is not None


def table_state(name: str, schema: StructType) -> TableState:
    """A table with the name that views give it."""
    key: dict[int, tuple[str, Kind]] = {}
    columns: dict[str, Kind] = {}
    for column in schema:
        kind = _KINDS.get(column.dataType.typeName(), object)
        found = _COMMENT.fullmatch(str(column.metadata.get("comment") or ""))
        number, said = found.groups() if found is not None else (None, None)
        kind = Number if said == _NUMBER else noted_kind(said or "") or kind
        if number is not None:
            key[int(number)] = column.name, kind
        else:
            columns[column.name] = kind
    return TableState(name, dict(key[number] for number in sorted(key)), columns)


def folder_name(table: str) -> str:
    """The folder of a table. Two `_` are only before a shadow's name."""
    plain = table.replace("__", "_\x01")
    return re.sub(r"[^A-Za-z0-9_]", lambda found: _hexadecimal(found[0]), plain)


def table_name(folder: str) -> str:
    """The table of a folder, see `folder_name`."""
    found = re.sub(
        "(@[0-9a-f]{2})+", lambda run: bytes.fromhex(run[0].replace("@", "")).decode(), folder
    )
    return found.replace("_\x01", "__")


def _hexadecimal(character: str) -> str:
    return "".join(f"@{byte:02x}" for byte in character.encode())


def declared(column: str, kind: Kind, number: int | None = None) -> str:
    """A column in a statement. number: its place in the primary key."""
    said = _NUMBER if kind is Number else noted(kind)
    comment = ": ".join(filter(None, (f"primary key {number}" if number else "", said)))
    rule = " NOT NULL" if number else ""
    told = f" COMMENT '{comment}'" if comment else ""
    return f"{quoted(column)} {sql_type(kind, _SQL_TYPES)}{rule}{told}"
