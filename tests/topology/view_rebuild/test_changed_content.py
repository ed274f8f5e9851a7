"""A rebuild of several views moves no event of one by what the handler of another changes."""

from typing import Any

import pytest

from tests.topology.handled import order
from tests.topology.partition import INSPECTOR
from tests.topology.view_rebuild.rows import rebuilt
from topology import Event, Topology, TopologyTestDriver, Upsert, contiguous, linked


def first(event: Event) -> None:
    event.content.pop("lane", None)
    event.content.pop("before", None)


def board(event: Event) -> list[Upsert]:
    return [Upsert("board", {"id": event.stream, "lane": event.lane or ""}, {"n": event.sequence})]


@pytest.mark.parametrize(
    ("sequence", "policies"),
    [
        (contiguous(), {"lane": "lane"}),
        (contiguous(), {"lane": "lane", "closes": "End", "retention": 60}),
        (linked("before"), {}),
    ],
    ids=["lanes", "closing", "links"],
)
def test_a_handler_that_pops_a_field_moves_no_event_of_another_view(
    sequence: Any, policies: dict[str, Any]
) -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, sequence=sequence, keyed=True)
    topology.view("first", of=orders, handler=first)
    topology.view("board", of=orders, handler=board, **policies)
    driver = TopologyTestDriver(topology, strict=False)
    for n in (1, 3, 2, 4):
        driver.pipe("orders", order(n, lane="L", before=n - 1 or None), key="a")
    state = {name: dict(store.scan(b"", b"\xff")) for name, store in driver._storage.stores.items()}
    assert driver.counts("board").processed == 4
    _, tally = rebuilt(topology, driver.read("orders"), state)
    assert (tally["board"].processed, tally["board"].missing, tally["board"].failed) == (4, 0, 0)
