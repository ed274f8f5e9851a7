"""What a rebuild is given, and what becomes of what it says: rows of history, and plain tables."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from tests.topology.partition import INSPECTOR
from topology import Message, Topology, spill
from topology.declaration.lanes import split_lane
from topology.view_rebuild import HistoryPart, Rebuild, Rebuilt, Tally

Tables = dict[str, dict[bytes, dict[str, Any]]]
"""Table → key as JSON → columns."""


def begun(handler: Any, start: Any, **policies: Any) -> Topology:
    """Topology `shop` with a view that has its own way to begin streams."""
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, keyed=True)
    policies = {"full": spill(), **policies}
    topology.view("board", of=orders, handler=handler, start=start, **policies)
    return topology


class ReadStore:
    """Applies records as a sink does: fenced by view, stream and sequence."""

    def __init__(self) -> None:
        self.tables: Tables = defaultdict(dict)
        self.last: dict[tuple[str, str], int] = {}

    def apply(self, values: Iterable[bytes | None]) -> "ReadStore":
        for value in values:
            record = orjson.loads(value or b"")
            at = record["view"], record["stream"]
            if record["sequence"] <= self.last.get(at, -(2**63) - 1):
                continue
            self.last[at] = record["sequence"]
            for change in record["changes"]:
                rows = self.tables[change["table"]]
                key = orjson.dumps(change["key"], option=orjson.OPT_SORT_KEYS)
                if change["op"] == "delete":
                    rows.pop(key, None)
                else:
                    rows.setdefault(key, {}).update(change["values"])
        return self

    def plain(self) -> Tables:
        """The tables that have rows."""
        return {name: rows for name, rows in self.tables.items() if rows}


def rows(
    topology: Topology,
    messages: Sequence[Message],
    state: Mapping[str, Mapping[bytes, bytes]],
    inspect: Any = None,
) -> list[HistoryPart]:
    """History as Spark hands it over: stream by stream, the views' progress first.

    state: view → the rows of its changelog.
    """
    (source,) = topology.sources.values()
    limits: dict[str, list[tuple[str, str, bytes]]] = defaultdict(list)
    found: dict[str, list[Message]] = defaultdict(list)
    for name, table in state.items():
        for key, row in table.items():
            if key[:1] == b"p":
                of_view = key[1:].decode()
                lanes = topology.views[name].lane is not None
                stream = split_lane(of_view)[0] if lanes else of_view
                limits[stream].append((name, of_view, row))
    for message in messages:
        inspected = source.inspect(message)
        assert inspected is not None
        found[inspected[0]].append(message)
    parts: list[HistoryPart] = []
    for stream in sorted({*limits, *found}):
        # In two parts, as batches end where they like.
        half = len(found[stream]) // 2
        parts.append(HistoryPart(stream, limits[stream], found[stream][:half]))
        parts.append(HistoryPart(stream, [], found[stream][half:]))
    return parts


def rebuilt(
    topology: Topology,
    messages: Sequence[Message],
    state: Mapping[str, Mapping[bytes, bytes]],
    at: int = 0,
    **options: Any,
) -> tuple[list[Rebuilt], dict[str, Tally]]:
    """What a rebuild of all views says, and its numbers."""
    (source,) = topology.sources.values()
    rebuild = Rebuild(topology, source, list(topology.views), at, **options)
    records = list(rebuild.run(rows(topology, messages, state)))
    return records, rebuild.finish()
