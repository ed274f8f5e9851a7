"""A topology with other inspectors: what a configuration puts in the place of the declared ones."""

import pytest

from tests.topology.inspectors.formats import csv
from topology import DeclarationError, Event, Inspector, Topology
from topology.testing import TopologyTestDriver


def shop() -> tuple[Topology, list[str]]:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("order", "n"))
    topology.source("payments", inspector=Inspector("order", "n"))
    seen: list[str] = []

    def handler(event: Event) -> None:
        seen.append(f"{event.stream}{event.sequence}")

    topology.view("board", of=orders, handler=handler)
    topology.view("paid", of="payments", handler=handler)
    return topology, seen


def test_the_copy_has_the_other_inspector_and_all_else_is_the_same() -> None:
    topology, seen = shop()
    other = topology.with_inspectors({"orders": "tests.topology.inspectors.formats:csv"})
    driver = TopologyTestDriver(other)
    driver.pipe("orders", b"a,1,Paid")
    driver.pipe("payments", {"order": "b", "n": 1})
    assert seen == ["a1", "b1"]

    described = other.describe()
    assert described.sources[0].inspector == "csv"
    assert described.sources[1:] == topology.describe().sources[1:]
    assert described.views == topology.describe().views
    assert [view.of for view in other.views.values()] == list(other.sources.values())


def test_the_topology_itself_stays_as_it_was() -> None:
    topology, seen = shop()
    before = topology.describe()
    topology.with_inspectors({"orders": csv})
    assert topology.describe() == before
    driver = TopologyTestDriver(topology)
    driver.pipe("orders", {"order": "a", "n": 1})
    assert seen == ["a1"]


def test_a_source_that_is_not_there_is_named() -> None:
    with pytest.raises(DeclarationError, match=r"'order'.*it has 'orders', 'payments'"):
        shop()[0].with_inspectors({"order": csv})


def test_what_is_no_inspector_is_named_with_its_source() -> None:
    with pytest.raises(DeclarationError, match=r"source 'orders': inspector='no\.such:one'"):
        shop()[0].with_inspectors({"orders": "no.such:one"})
