"""What is durable of a topology in a test: topics, views' tables, and the read store they make."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from stores.view_state.memory import MemoryTable
from topology.declaration.topology import Topology
from topology.engine.commit_unit import CommitUnit
from topology.model.errors import RefusedValue
from topology.model.event import Record, damaged
from topology.model.large import too_large
from topology.model.printable import printable
from topology.testing.driver.read_store import ReadStore, StoreRules

Headers = Sequence[tuple[str, bytes]]
_REFUSED = f"{RefusedValue.__name__}: "


class DriverStorage:
    """topics: name → records. stores: view → its rows. read_store: the tables.

    refused: what came of handlers that is no row of a read store, in words.
    """

    def __init__(self, topology: Topology, store: StoreRules = "any") -> None:
        self.topology = topology
        self.stores = {name: MemoryTable() for name in topology.views}
        for route in topology.routes.values():
            self.stores.update((each.name, MemoryTable()) for each in route.tables)
        self.topics: dict[str, list[Record]] = defaultdict(list)
        declared = [table for view in topology.views.values() for table in view.tables]
        self.read_store = ReadStore(declared, store)
        self.refused: list[str] = []

    def commit(self, unit: CommitUnit) -> None:
        """Keep all of a unit."""
        for view, rows in unit.rows.items():
            self.stores[view].write(rows)
        for outputs in (unit.colocated, unit.keyed):
            for topic, records in outputs.items():
                for key, value, timestamp, headers in records:
                    self.append(topic, key, value, headers, timestamp)
        for declared in self.topology.views.values():
            count = len(unit.colocated.get(declared.output, ()))
            if count:
                new = self.topics[declared.output][-count:]
                dead = self.read_store.apply((r.topic, 0, r.offset, r.value) for r in new)
                self.refused += [f"{d.topic} offset {d.offset}: {d.reason}" for d in dead]
        for topic in {each.errors_topic for each in self.topology.views.values()}:
            for _, value, _, _ in unit.keyed.get(topic, ()):
                report = orjson.loads(value or b"{}")
                if report["error"].startswith(_REFUSED):
                    self.refused.append(_said(report))

    def append(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, timestamp: int
    ) -> Record:
        """Write a record. One that is too large is read as workers read it: as malformed."""
        records = self.topics[topic]
        record = Record(topic, 0, len(records), key, value, tuple(headers), timestamp)
        if (reason := too_large(record)) is not None:
            record = damaged(record, reason)
        records.append(record)
        return record


def _said(report: Mapping[str, Any]) -> str:
    return (
        f"view {report['view']!r} stream {printable(report['stream'])!r} sequence "
        f"{report['sequence']}: {report['error'].removeprefix(_REFUSED)}"
    )
