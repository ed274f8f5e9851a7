"""What becomes of the rows of one stream that is rebuilt in the middle of live tables."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from topology.view_rebuild.folding import Folding


def are_changes(changes: Iterable[Any]) -> bool:
    """Whether a record's changes are such that a read store may have applied them."""
    return all(
        isinstance(change, dict)
        and isinstance(change.get("table"), str)
        and isinstance(change.get("key"), dict)
        and change["key"]
        and (
            change.get("op") == "delete"
            or (change.get("op") == "upsert" and isinstance(change.get("values"), dict))
        )
        for change in changes
    )


class Replacement:
    """Rows that were written so far, what is rebuilt, and what was said since, made one record."""

    def __init__(self, view: str, stream: str) -> None:
        self.view = view
        self.stream = stream
        self._last = (0, -(1 << 70))
        self._changes: list[Any] = []
        self._written: dict[tuple[Any, bytes], tuple[Any, Any]] = {}

    def rebuilt(self, record: Mapping[str, Any]) -> None:
        """The next of the rebuilt records of the stream."""
        self._last = record.get("epoch", 0), record["sequence"]
        self._changes += record["changes"]

    def wrote(self, changes: Iterable[Mapping[str, Any]]) -> None:
        """Changes that the view said of the stream before, whenever that was."""
        for change in changes:
            table, key = change["table"], change["key"]
            at = table, orjson.dumps(key, option=orjson.OPT_SORT_KEYS)
            self._written.setdefault(at, (table, key))

    def record(self, followed: Iterable[Mapping[str, Any]]) -> bytes:
        """One record for all of it.

        followed: what the live tables have of the stream's outputs since; of them, what is not
        rebuilt is done over.
        """
        fold = Folding()
        fold.add(
            {"op": "delete", "table": table, "key": key} for table, key in self._written.values()
        )
        # A row that is rebuilt begins anew: what it had besides was not of this making.
        keys = {
            (c["table"], orjson.dumps(c["key"], option=orjson.OPT_SORT_KEYS)): c
            for c in self._changes
        }
        fold.add({"op": "delete", "table": c["table"], "key": c["key"]} for c in keys.values())
        fold.add(self._changes)
        last = self._last
        for record in followed:
            at = record.get("epoch", 0), record["sequence"]
            if at > last:
                fold.add(record["changes"])
                last = at
        return fold.record(self.view, self.stream, last[1], last[0])
