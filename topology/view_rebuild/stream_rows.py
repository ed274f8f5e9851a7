"""The rows that a stream's output records come to, as a read store applies them."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from topology.model.changes import Delete

Place = tuple[str, bytes]
"""(table, the row's key as JSON)."""


class Row(NamedTuple):
    """A row that is there: its key, and the columns that were set."""

    key: Mapping[str, Any]
    columns: frozenset[str]


class WrittenRows:
    """rows: the rows that are there. epoch, last: of the record that was applied last, as a read
    store has it. first: the sequence of the first record of that epoch, None if there is none.
    sequences: those of all its records.
    """

    def __init__(self) -> None:
        self.rows: dict[Place, Row] = {}
        self.epoch = 0
        self.last: int | None = None
        self.first: int | None = None
        self.sequences: set[int] = set()

    def record(self, body: Mapping[str, Any]) -> None:
        """Apply a record. One at or below the last is a copy: read stores ignore it, too."""
        epoch, sequence = body.get("epoch", 0), body["sequence"]
        if self.last is not None and (epoch, sequence) <= (self.epoch, self.last):
            return
        if self.last is None or epoch > self.epoch:
            self.first, self.sequences = sequence, set()
        self.sequences.add(sequence)
        self.epoch, self.last = epoch, sequence
        self.apply(body["changes"])

    def apply(self, changes: Iterable[Mapping[str, Any]]) -> None:
        """Apply row changes."""
        for change in changes:
            key = change["key"]
            place = change["table"], orjson.dumps(key, option=orjson.OPT_SORT_KEYS)
            if change["op"] == "delete":
                self.rows.pop(place, None)
                continue
            found = self.rows.get(place)
            columns = frozenset(change["values"])
            self.rows[place] = Row(key, columns if found is None else found.columns | columns)

    def stale(self, new: "WrittenRows") -> list[Delete]:
        """Deletes of the rows that `new` does not have, or of which it does not set all columns."""
        found: list[Delete] = []
        for place, row in self.rows.items():
            other = new.rows.get(place)
            if other is None or not row.columns <= other.columns:
                found.append(Delete(place[0], row.key))
        return found
