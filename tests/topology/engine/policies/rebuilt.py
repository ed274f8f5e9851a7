"""Views with late=rebuild_stream(), and where their events are."""

from typing import Any

from tests.topology.engine.rebuilding import (
    Rebuilding,
    orders,
    rebuilding,
)
from tests.topology.handled import driver_of as driving
from tests.topology.handled import order
from topology import (
    Emit,
    Event,
    Inspector,
    Topology,
    TopologyTestDriver,
    Upsert,
    rebuild_stream,
    skip,
)


def late_by_three() -> Rebuilding:
    """2 and 3 of stream a were given up."""
    partition = Rebuilding(rebuilding())
    partition.feed(orders(("a", 1), ("a", 4), ("b", 1)))
    partition.advance(3000)
    return partition


def driver_of(**policies: Any) -> TopologyTestDriver:
    """A driver of a view that lists what it handled of a stream."""
    sequence = policies.pop("sequence", None)
    topology = Topology("shop")
    inspector = Inspector("id", "n")
    topology.source("orders", inspector=inspector, sequence=sequence)
    topology.view("board", of="orders", handler=policies.pop("handler", listed), **policies)
    return TopologyTestDriver(topology)


def listed(event: Event, state: dict[str, Any]) -> Any:
    state["seen"] = [*state.get("seen", []), event.sequence]
    yield Upsert("board", key={"id": event.stream}, values={"seen": state["seen"]})
    yield Emit("log", event.stream, event.sequence)


def faulty(broken: set[int], **policies: Any) -> TopologyTestDriver:
    """A driver of a view that lists what it handled, and whose handler fails at some sequences."""

    def handler(event: Event, state: dict[str, Any]) -> Any:
        if event.sequence in broken:
            raise ConnectionError("down")
        yield from listed(event, state)

    return driving(handler, gap=skip(after=10), late=rebuild_stream(), **policies)


def came(driver: TopologyTestDriver, *sequences: int) -> None:
    for sequence in sequences:
        driver.pipe("orders", order(sequence))


def placed(driver: TopologyTestDriver) -> tuple[int, ...]:
    """Processed, late, failed, dead, duplicate, skipped; they add up, and the audit agrees."""
    counts = driver.counts("board")
    assert counts.accounted == counts.received
    audit = driver.audit()
    assert not audit.violations, str(audit)
    places = counts.processed, counts.late, counts.failed, counts.dead
    return *places, counts.duplicate, counts.skipped
