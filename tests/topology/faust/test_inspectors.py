"""SEQUITUR_INSPECTOR_<SOURCE>: an inspector that the environment names."""

from pathlib import Path

import pytest

from tests.topology.inspectors.formats import csv
from topology import DeclarationError, Inspector, Topology
from topology.declaration.environment import variable, with_inspectors
from topology.faust import compile

NAME = "tests.topology.inspectors.formats:csv"


def shop(*sources: str) -> Topology:
    topology = Topology("shop")
    for name in sources or ("orders", "web.orders"):
        topology.source(name, inspector=Inspector("id", "n"))
    return topology


def test_a_source_s_variable() -> None:
    assert variable("orders") == "SEQUITUR_INSPECTOR_ORDERS"
    assert variable("web.orders-2") == "SEQUITUR_INSPECTOR_WEB_ORDERS_2"


def test_the_environment_names_the_inspector_of_a_source() -> None:
    topology = with_inspectors(shop(), {"SEQUITUR_INSPECTOR_WEB_ORDERS": NAME, "HOME": "x"})
    assert topology.sources["web.orders"].inspector is csv
    assert isinstance(topology.sources["orders"].inspector, Inspector)


@pytest.mark.parametrize("environment", [{}, {"SEQUITUR_INSPECTOR_ORDERS": ""}])
def test_an_environment_that_names_none_leaves_the_topology(environment: dict[str, str]) -> None:
    topology = shop()
    assert with_inspectors(topology, environment) is topology


def test_a_variable_of_no_source_is_refused_with_those_there_are() -> None:
    with pytest.raises(DeclarationError) as error:
        with_inspectors(shop(), {"SEQUITUR_INSPECTOR_ORDER": NAME})
    for word in ("SEQUITUR_INSPECTOR_ORDER=", "'shop'", "SEQUITUR_INSPECTOR_WEB_ORDERS"):
        assert word in str(error.value)


def test_a_variable_that_could_be_of_two_sources_is_refused() -> None:
    topology = shop("a.b", "a-b")
    with pytest.raises(DeclarationError, match=r"'a\.b', 'a-b'; give one of them another `name`"):
        with_inspectors(topology, {"SEQUITUR_INSPECTOR_A_B": NAME})


def test_a_name_that_leads_nowhere_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"source 'orders': inspector='no\.such:one'"):
        with_inspectors(shop(), {"SEQUITUR_INSPECTOR_ORDERS": "no.such:one"})


def test_compile_applies_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEQUITUR_INSPECTOR_ORDERS", NAME)
    app = compile(shop(), datadir=str(tmp_path))
    assert app.engine.topology.sources["orders"].inspector is csv
