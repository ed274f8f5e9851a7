"""Inspectors by name: 'module:name' is imported and checked where the source is declared."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.inspectors import formats
from topology import DeclarationError, Inspector, Record, Topology
from topology.inspectors.inspector import compile_inspector
from topology.model.dotted import load
from topology.testing import TopologyTestDriver

HERE = "tests.topology.inspectors.formats"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("csv", b"a,7,Paid"),
        ("Lines", b"a;7;Paid"),
        ("Lines.Tabbed", b"a\t7\tPaid"),
    ],
)
def test_a_function_or_a_class_is_imported(name: str, value: bytes) -> None:
    found = compile_inspector(f"{HERE}:{name}")(Record("t", 0, 0, None, value))
    assert found == ("a", 7, "Paid", None)


def test_an_instance_is_imported_as_it_is() -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=f"{HERE}:orders")
    assert source.inspector is formats.orders
    assert "Inspector(stream=order.id, sequence=version)" in str(topology.describe())


def test_a_source_by_name_runs() -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=f"{HERE}:csv")
    seen: list[int] = []
    topology.view("board", of=source, handler=lambda event: seen.append(event.sequence))
    driver = TopologyTestDriver(topology)
    driver.pipe("orders", b"a,2,Paid")
    driver.pipe("orders", b"a,1,Placed")
    assert seen == [1, 2]


def test_a_class_of_one_s_own_compiles_and_is_normalised() -> None:
    inspect = compile_inspector(formats.Lines("|"))
    guid = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
    found = inspect(Record("t", 0, 0, None, f"{guid}|7".encode()))
    assert found == (guid.lower(), 7, None, None)
    assert inspect(Record("t", 0, 0, None, b"")) is None


@pytest.mark.parametrize(
    ("inspector", "words"),
    [
        ("csv", ["'csv'", "'module:name'"]),
        ("", ["inspector=''", "'module:name'"]),
        ("a b:c", ["'a b:c'", "'module:name'"]),
        (f"{HERE}:csv()", ["csv()", "'module:name'"]),
        (f"{HERE}:__import__('os')", ["'module:name'"]),
        (".formats:csv", ["'module:name'"]),
        ("no.such.module:csv", ["there is no module", "'no'", "Python's path"]),
        ("tests.topology.inspectors.broken_formats:csv", ["RuntimeError: the licence has run out"]),
        (f"{HERE}:tsv", [f"module '{HERE}' has no 'tsv'", "correct the name"]),
        (f"{HERE}:Lines.Nothing", ["has no 'Lines.Nothing'"]),
        (f"{HERE}:NUMBER", [f"'{HERE}:NUMBER'", "give an Inspector(…) or a function"]),
        (f"{HERE}:Strict", ["cannot be made without arguments", "separator", "name an instance"]),
        (Inspector, ["cannot be made without arguments"]),
        (f"{HERE}:Broken", ["its compile() returned 5", "a function of a message"]),
    ],
)
def test_what_a_name_does_not_lead_to_is_told_with_the_remedy(
    inspector: Any, words: list[str]
) -> None:
    with pytest.raises(DeclarationError) as error:
        compile_inspector(inspector)
    for word in words:
        assert word in str(error.value)


@given(place=st.text(max_size=30) | st.text(max_size=10).map(lambda name: f"{HERE}:{name}"))
def test_any_text_is_imported_or_refused(place: str) -> None:
    refused = ""
    try:
        load("inspector", place, "a function")
    except DeclarationError as error:
        refused = str(error)
    assert not refused or repr(place) in refused
