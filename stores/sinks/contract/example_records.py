"""Output records to apply, and the table that most of them are for."""

from collections.abc import Mapping
from typing import Any

import orjson

from stores.sinks import OutputRecord
from topology.model.table import Table

TOPIC = "shop.orders"
ORDERS = Table("orders", key={"id": int}, columns={"state": str, "total": float, "paid": bool})

ODD_NAMES = [
    'quo"te',
    "semi; DROP TABLE orders; --",
    "SELECT",
    "ümläut 表",
    "a.b",
    "a__b",
    "`tick`",
    "../up",
    "%s ? :x {y} \\",
    "excluded",
    "x" * 52,
]
"""Names of tables and columns that are nothing but names."""
ODD_COLUMNS = [*ODD_NAMES, "y" * 63]
"""Names of columns, which may be longer."""

Rows = dict[tuple[Any, ...], dict[str, Any]]
Change = dict[str, Any]


def upsert(table: str, key: Mapping[str, Any], **values: Any) -> Change:
    return {"op": "upsert", "table": table, "key": dict(key), "values": values}


def delete(table: str, key: Mapping[str, Any]) -> Change:
    return {"op": "delete", "table": table, "key": dict(key)}


def value(
    stream: str, sequence: Any, *changes: Any, view: str = "orders", epoch: Any = None
) -> bytes:
    """The value of an output record; it has no epoch unless one is given."""
    record = {"view": view, "stream": stream, "sequence": sequence, "changes": changes}
    return orjson.dumps(record if epoch is None else {**record, "epoch": epoch})


def order(offset: int, sequence: int, **values: Any) -> OutputRecord:
    """A record of stream "a" that upserts row 1 of the table orders."""
    return TOPIC, 0, offset, value("a", sequence, upsert("orders", {"id": 1}, **values))
