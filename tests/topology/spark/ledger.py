"""A small topology for kills: one keyed source, one view with state."""

import os
from collections.abc import Iterator
from typing import Any

from topology import Event, Inspector, Topology, Upsert, key, skip

topology = Topology(os.environ.get("LEDGER", "ledger"))
source = topology.source(
    f"{topology.name}.in",
    inspector=Inspector(stream=key(), sequence="n"),
    keyed=True,
    partitions=2,
)


@topology.view("ledger", of=source, gap=skip(after=600))
def ledger(event: Event, state: dict[str, Any]) -> Iterator[Upsert]:
    state["sum"] = state.get("sum", 0) + event.sequence
    yield Upsert("ledger", key={"id": event.stream}, values=state)
