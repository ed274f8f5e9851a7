"""The row changes of a stream made one record: each row once, as the last change leaves it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from topology.model.change_json import ROW_OPTIONS, as_text
from topology.model.changes import Delete, Upsert

_SORTED = ROW_OPTIONS | orjson.OPT_SORT_KEYS

MOST_ROWS = 2_000
"""Rows of one record; a stream that writes more has several records."""


@dataclass(slots=True)
class _Row:
    """values: to be set, None if the row is to go. reset: it is deleted before that."""

    table: Any
    key: Any
    values: dict[str, Any] | None
    reset: bool


class Folding:
    """Folds the row changes of one stream of a view, in order."""

    def __init__(self) -> None:
        self._rows: dict[Any, _Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, changes: Iterable[Mapping[str, Any]]) -> None:
        """The changes of the next record, as its JSON has them."""
        for change in changes:
            self._add(change["table"], change["key"], change.get("values"))

    def add_yielded(self, changes: Iterable[Upsert | Delete]) -> None:
        """The same as a handler yielded them; only the dictionaries may change afterwards."""
        for change in changes:
            self._add(
                change.table, change.key, change.values if isinstance(change, Upsert) else None
            )

    def _add(self, table: Any, key: Mapping[str, Any], values: Mapping[str, Any] | None) -> None:
        at: Any = None
        if len(key) == 1:
            for name, value in key.items():
                if value.__class__ is not str and value.__class__ is not int:
                    # As the key's JSON has it, by which the same row may come the next time.
                    value = orjson.loads(orjson.dumps(value, default=as_text, option=ROW_OPTIONS))
                if value.__class__ is str or value.__class__ is int:
                    at = table, name, value
        if at is None:
            # As JSON, since 1 and true are equal in Python, and are not in a text column.
            at = table, orjson.dumps(key, default=as_text, option=_SORTED)
        before = self._rows.get(at)
        if before is not None and before.values is not None and values is not None:
            before.values.update(values)
        elif before is not None and values is not None:
            before.values = dict(values)
        else:
            kept = None if values is None else dict(values)
            self._rows[at] = _Row(table, dict(key), kept, values is None)

    @property
    def tables(self) -> set[Any]:
        """The tables that are written."""
        return {row.table for row in self._rows.values()}

    def changes(self) -> list[dict[str, Any]]:
        """The changes that come to the same."""
        found: list[dict[str, Any]] = []
        for row in self._rows.values():
            if row.reset:
                found.append({"op": "delete", "table": row.table, "key": row.key})
            if row.values is not None:
                found.append(
                    {"op": "upsert", "table": row.table, "key": row.key, "values": row.values}
                )
        return found

    def record(self, view: str, stream: str, sequence: int, epoch: int = 0) -> bytes:
        """A record of the view's output topic with all changes."""
        body: dict[str, Any] = {"view": view, "stream": stream, "sequence": sequence}
        if epoch:
            body["epoch"] = epoch
        body["changes"] = self.changes()
        return orjson.dumps(body, default=as_text, option=ROW_OPTIONS)
