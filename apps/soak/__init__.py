"""A topology made to be killed: its outputs and states are checked against a fold of its input.

From the environment: SOAK (name prefix of its topics and group), SOAK_CLOCK (the file that its wall
clock follows, if any), SOAK_WORKED (if set, views with workers are among its views), SOAK_RING (the
slots of the ring of view `again`),
SEQUITUR_BROKER, SEQUITUR_DATADIR, SEQUITUR_GUARANTEE. Input is re-keyed by
the stream in the body.
"""

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

from soak.clock import FILE as FILE  # first: it moves the clock
from soak.worked import declare_worked
from stores.view_state import rocksdb
from topology import Emit, Event, Inspector, Topology, Upsert, redeliver, skip
from topology.faust import compile

PREFIX = os.environ.get("SOAK", "soak")
PARTITIONS = 4
VIEWS = ("ledger", "copies", "again")
GIVEN_UP = 3600.0
"""Seconds after which the ledger gives a gap up: more than a round takes, less than clocks leap."""

rocksdb.WRITE_BUFFER_BYTES = 64 << 10
"""So small that tables are flushed and compacted within minutes, as they are over days."""

topology = Topology(PREFIX)
source = topology.source(
    f"{PREFIX}.in",
    inspector=Inspector(stream="stream", sequence="seq"),
    name="in",
    partitions=PARTITIONS,
)


def fold(total: int, amount: int) -> int:
    """The running total of a stream: any event missed, repeated or out of order changes it."""
    return (total * 31 + amount) % 1_000_000_007


def total(table: str, event: Event, state: dict[str, Any]) -> Upsert:
    """Keeps the running total in the stream's state, a row per stream."""
    state["total"] = fold(state.get("total", 0), event.content["amount"])
    values = {"seq": event.sequence, "total": state["total"]}
    return Upsert(table, key={"stream": event.stream}, values=values)


@topology.view("ledger", of=source, buffer=16, gap=skip(after=GIVEN_UP))
def ledger(event: Event, state: dict[str, Any]) -> Iterator[Upsert]:
    """Keeps totals; what waits beyond its ring is on disk, and its gaps have a deadline."""
    yield total("ledger", event, state)


@topology.view("again", of=source, buffer=int(os.environ.get("SOAK_RING", 16)), full=redeliver())
def again(event: Event, state: dict[str, Any]) -> Iterator[Upsert]:
    """Keeps totals; what does not fit into its ring comes again."""
    yield total("again", event, state)


@topology.view("copies", of=source)
async def copies(event: Event) -> AsyncIterator[Emit]:
    """Sends every event on, by a handler that is awaited."""
    yield Emit(f"{PREFIX}.copied", event.stream, event.message.value)


if os.environ.get("SOAK_WORKED"):
    declare_worked(topology, source, total)
app = compile(topology, group=PREFIX)
