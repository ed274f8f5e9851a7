"""One handler in one view, run on orders of one stream, and what came of it."""

from collections.abc import Callable
from typing import Any

from tests.topology.partition import INSPECTOR
from topology import Topology, TopologyTestDriver


def driver_of(
    handler: Callable[..., Any], sequence: Any = None, **policies: Any
) -> TopologyTestDriver:
    """A driver of topology `shop` with source `orders` and the view `board`."""
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, sequence=sequence)
    topology.view("board", of=orders, handler=handler, **policies)
    return TopologyTestDriver(topology, strict=False)


def order(sequence: int, stream: str = "a", kind: str = "Placed", **more: object) -> dict[str, Any]:
    return {"stream": stream, "sequence": sequence, "kind": kind, **more}


def run(handler: Callable[..., Any], count: int = 1, **policies: Any) -> TopologyTestDriver:
    """The driver after `count` orders of stream `a`."""
    driver = driver_of(handler, **policies)
    for sequence in range(1, count + 1):
        driver.pipe("orders", order(sequence))
    return driver


def failure(driver: TopologyTestDriver) -> str:
    """The error of the one event that failed."""
    (report,) = driver.read_json("shop.errors")
    assert driver.counts("board").failed == 1
    error: str = report["error"]
    return error
