"""A topology with many policies, in a module that Spark's Python workers can import."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

from topology import (
    Delete,
    Emit,
    Event,
    Inspector,
    Table,
    Topology,
    Upsert,
    earliest_seen,
    key,
    linked,
    monotonic,
    opened_by,
    park,
    redeliver,
    retry,
    skip,
    spill,
)

KINDS = ("Placed", "Paid", "Shipped", "Odd", "Boom")


def make(name: str, limit: int = 0, pace: float = 0.3) -> Topology:
    """The topology under a name of its own: views of all kinds over three sources.

    limit: how often an event may come again that has no room, 0 for waiting as a row instead.
    pace: what times are multiplied by.
    """
    shop = Topology(name)
    orders = shop.source(
        (f"{name}.web", f"{name}.desk"),
        name="orders",
        inspector=Inspector(stream="id", sequence="n", kind="kind"),
        unknown="topic",
    )
    links = shop.source(
        f"{name}.links",
        name="links",
        inspector=Inspector(stream=key(), sequence="n", kind="kind"),
        sequence=linked(previous="after", first=0),
        keyed=True,
        partitions=2,
    )
    times = shop.source(
        f"{name}.times",
        name="times",
        inspector=Inspector(stream="id", sequence="n", kind="kind"),
        sequence=monotonic(settle=2 * pace),
        partitions=2,
    )

    @shop.view("plain", of=orders, accepts=("Placed", "Paid", "Shipped"), buffer=4, full=spill())
    def plain(event: Event) -> Iterator[Any]:
        yield Upsert("plain", key={"id": event.stream}, values={"n": event.sequence})

    @shop.view(
        "board",
        of=orders,
        buffer=4,
        gap=skip(after=6 * pace),
        full=redeliver(delay=pace, limit=limit) if limit else spill(),
        tables=[Table("board", key={"id": str}, columns={"seen": int, "kind": str})],
    )
    def board(event: Event, state: dict[str, Any]) -> Iterator[Any]:
        state["seen"] = state.get("seen", 0) + 1
        if event.kind == "Boom":
            raise ValueError(f"boom at {event.sequence}")
        if event.kind == "Odd":
            yield Delete("board", key={"id": event.stream})
            yield Emit(f"{name}.alerts", event.stream, {"odd": event.sequence})
            yield Emit(f"{name}.alerts", b"all", b"\xff\x00", (("why", b"\xfe"), ("who", b"")))
        else:
            values = {"seen": state["seen"], "kind": event.kind}
            yield Upsert("board", key={"id": event.stream}, values=values)

    @shop.view(
        "tries", of=orders, gap=skip(after=3 * pace), error=retry(2, backoff=pace, then=park())
    )
    def tries(event: Event, state: dict[str, Any]) -> Iterator[Any]:
        state["sum"] = state.get("sum", 0) + event.sequence
        if event.kind == "Boom":
            raise ValueError("boom")
        yield Upsert("tries", key={"id": event.stream}, values=state)

    @shop.view(
        "lanes",
        of=orders,
        lane="kind",
        start=earliest_seen(after=2 * pace),
        gap=skip(after=4 * pace),
    )
    def lanes(event: Event, state: dict[str, Any]) -> Iterator[Any]:
        state["count"] = state.get("count", 0) + 1
        yield Upsert("lanes", key={"id": event.stream, "lane": event.lane}, values=state)

    @shop.view(
        "life", of=orders, start=opened_by("Placed"), closes="Shipped", retention=5 * pace,
        reopen="start", gap=skip(after=4 * pace),
    )  # fmt: skip
    def life(event: Event, state: dict[str, Any]) -> Iterator[Any]:
        state["kinds"] = [*state.get("kinds", ()), event.kind]
        yield Upsert("life", key={"id": event.stream}, values={"kinds": len(state["kinds"])})

    @shop.view("chain", of=links, buffer=4, full=spill())
    async def chain(event: Event) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        yield Upsert("chain", key={"id": event.stream}, values={"n": event.sequence})

    @shop.view("settled", of=times)
    def settled(event: Event, state: dict[str, Any]) -> Iterator[Any]:
        state["before"], before = event.sequence, state.get("before")
        yield Upsert("settled", key={"id": event.stream}, values={"before": before})

    return shop


topology = make(
    os.environ.get("SHOP", "shop"),
    int(os.environ.get("LIMIT", "12")),
    float(os.environ.get("PACE", "1")),
)
