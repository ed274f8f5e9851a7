"""`--stream` names a stream as its producer writes it, in a view with lanes as well."""

import pytest

from topology import Inspector, Topology
from topology.diagnostics.explain.command_log import CommandFilter, CommandRecord
from topology.diagnostics.explain.parked_streams import ParkedStream, ParkedStreams
from topology.diagnostics.side_topics import ALL, SideFilter, SideRecord
from topology.engine.state.lane_names import meant_by
from topology.model.event import Record

GUID = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
CASES = [
    ("board", "a", "a", True),
    ("board", "a", "b", False),
    ("board", GUID.upper(), GUID, True),
    ("board", "a", "a|EUR", False),
    ("lanes", "a", "a|EUR", True),
    ("lanes", "a|EUR", "a|EUR", True),
    ("lanes", "a|EUR", "a|GBP", False),
    ("lanes", GUID.upper(), f"{GUID}|EUR", True),
    ("lanes", f"{GUID.upper()}|EUR", f"{GUID}|EUR", True),
    ("lanes", "a|b", "a%7Cb|EUR", True),
    ("lanes", "a", "ab|EUR", False),
    # A late record has the stream alone as its key, as it is.
    ("lanes", "a|b", "a|b", True),
    ("lanes", "a%b", "a%b", True),
    ("lanes", GUID.upper(), GUID, True),
    # What is no view has no names but its own.
    ("stage.orders", "=a", "=a", True),
    ("stage.orders", GUID.upper(), GUID, False),
]


def topology() -> Topology:
    made = Topology("shop")
    orders = made.source("orders", inspector=Inspector("id", "n"))
    made.view("board", of=orders, handler=lambda event: None)
    made.view("lanes", of=orders, handler=lambda event: None, lane="currency")
    return made


@pytest.mark.parametrize(("view", "text", "stream", "named"), CASES)
def test_a_stream_is_chosen_by_any_of_its_names(
    view: str, text: str, stream: str, named: bool
) -> None:
    meant = meant_by(topology().views, text)
    assert meant(view, stream) == named
    aside = ParkedStreams(0, [ParkedStream(view, 0, stream, 0, 1, 1, None)])
    assert len(aside.older(0, stream=text, meant=meant).streams) == named
    record = Record("shop.dead", 0, 0, stream.encode(), b"")
    side = SideRecord(0, 0, view, stream, 1, "", ("orders", 0, 0), record)
    assert SideFilter(stream=text, meant=meant).takes(side) == named
    told = CommandRecord("1", "skip", view, stream, 4, "ann", 0, 0, "waits")
    assert CommandFilter(stream=text, meant=meant).takes(told) == named


def test_what_has_no_stream_is_chosen_only_where_none_is_named() -> None:
    meant = meant_by(topology().views, "a")
    record = Record("shop.malformed", 0, 0, b"a", b"")
    side = SideRecord(0, 0, "", None, None, "", ("orders", 0, 0), record)
    told = CommandRecord("1", "halt", "board", None, None, "ann", 0, 0, "waits")
    assert not SideFilter(stream="a", meant=meant).takes(side)
    assert not CommandFilter(stream="a", meant=meant).takes(told)
    assert SideFilter(meant=meant).takes(side)
    assert CommandFilter(meant=meant).takes(told)
    assert SideFilter(meant=meant) == ALL
    assert CommandFilter(meant=meant) == CommandFilter()
