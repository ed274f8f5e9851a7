"""What is durable of a topology in a test: topics, views' tables, and the read store they make."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from stores.memory import MemoryTable
from topology.event import Record
from topology.topology import Topology
from topology.unit import CommitUnit

Headers = Sequence[tuple[str, bytes]]


class Kept:
    """topics: name → records. stores: view → its rows. tables: read-store table → key → row."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.stores = {name: MemoryTable() for name in topology.views}
        self.topics: dict[str, list[Record]] = defaultdict(list)
        self.tables: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = defaultdict(dict)
        self._keys: dict[str, tuple[str, ...]] = {}

    def commit(self, unit: CommitUnit) -> None:
        """Keep all of a unit."""
        for view, rows in unit.rows.items():
            self.stores[view].write(rows)
        for outputs in (unit.colocated, unit.keyed):
            for topic, records in outputs.items():
                for key, value, timestamp, headers in records:
                    self.append(topic, key, value, headers, timestamp)
        for declared in self.topology.views.values():
            for _, value, _, _ in unit.colocated.get(declared.output, ()):
                for change in orjson.loads(value or b"{}").get("changes", ()):
                    self._apply(change)

    def append(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, timestamp: int
    ) -> Record:
        """Write a record."""
        records = self.topics[topic]
        record = Record(topic, 0, len(records), key, value, tuple(headers), timestamp)
        records.append(record)
        return record

    def _apply(self, change: Mapping[str, Any]) -> None:
        rows, row = self.tables[change["table"]], change["key"]
        # The order of a key's columns is that of the first row.
        columns = self._keys.setdefault(change["table"], tuple(row))
        key = tuple(row[name] for name in columns if name in row)
        if change["op"] == "delete":
            rows.pop(key, None)
        else:
            rows.setdefault(key, dict(row)).update(change["values"])
