"""Topologies and messages for the simulator's tests."""

from collections.abc import Iterator
from typing import Any

from tests.topology.partition import INSPECTOR, board, shop
from topology import (
    Emit,
    Event,
    Inspector,
    Message,
    Topology,
    Upsert,
    contiguous,
    skip,
    spill,
)
from topology.testing import Sent, numbered


def sometimes(event: Event, state: dict[str, Any]) -> Any:
    """Fails at every fifth event, having changed the state."""
    state["calls"] = state.get("calls", 0) + 1
    if event.sequence % 5 == 0:
        raise ValueError("a multiple of five")
    return board(event, state)


async def later(event: Event) -> Any:
    return [Upsert("later", key={"id": event.stream}, values={"last": event.sequence})]


def plain(event: Event) -> Iterator[Upsert]:
    yield Upsert("plain", key={"id": event.stream}, values={"last": event.sequence})


def three_views() -> Topology:
    """A patient one with a tiny ring, a hasty one, and one that awaits and accepts few kinds."""
    topology = Topology("shop")
    orders = topology.source(["orders", "returns"], inspector=INSPECTOR, unknown="topic")
    topology.view("board", of=orders, handler=board, buffer=1, full=spill())
    topology.view("hasty", of=orders, handler=sometimes, gap=skip(after=2), buffer=2, full=spill())
    topology.view("later", of=orders, handler=later, accepts={"Paid"})
    return topology


def steps_of_three() -> Topology:
    """Numbers -4, -1, 2 …; unknown where there is no stream."""

    def inspect(message: Message) -> Any:
        found = compiled(message)
        return None if found is None or found[0] == "nobody" else found

    compiled = INSPECTOR.compile()
    topology = Topology("shop")
    orders = topology.source(
        "orders", inspector=inspect, sequence=contiguous(-4, 3), keyed=True, unknown="topic"
    )
    topology.view("board", of=orders, handler=sometimes, buffer=3, full=spill())
    topology.view("plain", of=orders, handler=plain, gap=skip(after=1))
    return topology


def ordered_by(sequence: Any, **policies: Any) -> Topology:
    """One view of a source that does not count."""
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, sequence=sequence)
    topology.view("board", of=orders, handler=board, buffer=2, full=spill(), **policies)
    return topology


def odd_messages(seed: int) -> list[Sent]:
    """Events of `steps_of_three`, some twice with another body, and what is no event."""
    sent = [
        Sent("orders", {"stream": stream, "sequence": 3 * at - 4, "kind": "Paid"})
        for at in range(7)
        for stream in "ab"
    ]
    sent += [Sent("orders", {**each.value, "kind": "Changed"}) for each in sent[seed % 3 :: 3]]
    sent += [Sent("orders", value) for value in (None, b"{", {"stream": "a", "sequence": 0})]
    sent.append(Sent("orders", {"stream": "nobody", "sequence": 2, "kind": "x"}))
    return sent


keyed = shop()
messages = numbered(keyed)(1)


picky = Topology("picky")
"""Its handler can handle nothing of what the simulator makes by itself."""
picky.view(
    "amounts",
    of=picky.source("amounts.in", inspector=Inspector(stream="id", sequence="n")),
    handler=lambda event: [Emit("amounts.out", event.stream, event.content["amount"])],
)


none: list[Sent] = []
elsewhere = [Sent("payments", {})]


def made_elsewhere(seed: int) -> list[Sent]:
    return elsewhere
