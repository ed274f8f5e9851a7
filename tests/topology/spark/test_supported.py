"""What does not run on Spark is refused at the start, with what to do instead."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.topology.spark import shops
from topology import DeclarationError, Inspector, Topology, adaptive, halt, rebuild_stream, skip
from topology.routing import RoutedSource, Rule, RuleSet
from topology.spark.reference import refer
from topology.spark.supported import check_supported


def one_view(**policies: Any) -> Topology:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector("id", "n"))
    topology.view("board", of=source, handler=lambda event: (), **policies)
    return topology


@pytest.mark.parametrize(
    ("policies", "says"),
    [
        ({"gap": skip(after=adaptive())}, r"view 'board': gap=skip\(after=adaptive.*give the sec"),
        ({"error": halt()}, r"view 'board': error=halt\(\).*use park\(\)"),
        ({"late": rebuild_stream()}, r"view 'board': late=rebuild_stream.*use late_topic\(\)"),
        ({"full": halt()}, r"view 'board': full=halt\(\).*use spill\(\)"),
    ],
)
def test_policies_of_a_whole_view_are_refused(policies: Mapping[str, Any], says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        check_supported(one_view(**policies))


def test_all_others_run() -> None:
    check_supported(shops.topology)
    check_supported(one_view())


def test_stages_beside_the_views_are_refused() -> None:
    """They were left out, and nobody was told."""
    routed, beside = one_view(), Topology("shop")
    rules = RuleSet(1, sources=[RoutedSource("in", ("all",))], destinations={"all": None},
                    rules=[Rule("all", to=("all",))])  # fmt: skip
    routed.route("flights", rules=rules)
    with pytest.raises(DeclarationError, match=r"route\('flights'\).*topology of its own.*Faust"):
        check_supported(routed)
    beside.parallel("copy", topic="in", workers=2, handler=lambda event: ())
    with pytest.raises(DeclarationError, match=r"parallel\('copy'\).*topology of its own.*Faust"):
        check_supported(beside)
    check_supported(one_view(workers=2))


def test_a_topology_without_views_is_refused() -> None:
    with pytest.raises(DeclarationError, match="has no views"):
        check_supported(Topology("shop"))


def test_a_topology_is_found_by_module_and_name() -> None:
    found = refer(shops.topology)
    assert str(found) == "tests.topology.spark.shops:topology"
    assert found.load() is shops.topology
    assert refer("tests.topology.spark.shops:topology") == found


def test_a_topology_that_workers_cannot_import_is_refused() -> None:
    with pytest.raises(DeclarationError, match="in no module that can be imported"):
        refer(one_view())
    with pytest.raises(DeclarationError, match="--py-files"):
        refer("no.such.module:topology")
    with pytest.raises(DeclarationError, match="there is no topology, but of type function"):
        refer("tests.topology.spark.shops:make")


def test_a_chosen_inspector_goes_with_the_reference() -> None:
    found = refer(shops.topology, {"orders": "tests.topology.inspectors.formats:csv"})
    assert (
        found.load().sources["orders"].inspector is not shops.topology.sources["orders"].inspector
    )
    assert found.load() is found.load()
