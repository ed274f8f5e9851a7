"""The context of a trace goes with its message through ordering, whatever the message waits for."""

from collections.abc import Iterator
from typing import Any

import pytest

from topology import Emit, Event, Inspector, Topology, TopologyTestDriver, Upsert, key
from topology.engine.output.trace_context import LONGEST, trace_context

PARENT = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
STATE = ("tracestate", b"shop=1")
OWN = ("traceparent", b"00-11111111111111111111111111111111-2222222222222222-01")


def shop(keyed: bool) -> Topology:
    topology = Topology("shop")
    source = topology.source(
        "orders", inspector=Inspector(stream=key(), sequence="seq"), keyed=keyed
    )

    @topology.view("board", of=source, emits=["sent"])
    def board(event: Event) -> Iterator[Any]:
        yield Upsert("board", key={"id": event.stream}, values={"seq": event.sequence})
        yield Emit("sent", event.stream, {"seq": event.sequence})
        yield Emit("sent", event.stream, {"own": event.sequence}, headers=[OWN])

    return topology


def traces(driver: TopologyTestDriver, topic: str) -> list[list[tuple[str, bytes]]]:
    """Of each record, the headers that are of a trace."""
    return [
        [each for each in record.headers if each[0] in ("traceparent", "tracestate")]
        for record in driver.read(topic)
    ]


@pytest.mark.parametrize("keyed", [True, False])
def test_a_context_goes_to_what_comes_of_its_event_although_that_waited(keyed: bool) -> None:
    driver = TopologyTestDriver(shop(keyed))
    driver.pipe("orders", {"seq": 2}, key="a", headers=[("other", b"x"), PARENT, STATE])
    driver.restart()
    driver.pipe("orders", {"seq": 1}, key="a")
    assert driver.counts("board").processed == 2
    assert traces(driver, "shop.board") == [[], [PARENT, STATE]]
    assert traces(driver, "sent") == [[], [OWN], [PARENT, STATE], [OWN]]


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [STATE],
        [("traceparent", b"")],
        [("traceparent", None)],
        [("traceparent", b"0" * (LONGEST + 1)), STATE],
        [("Traceparents", b"1")],
    ],
)
def test_what_is_no_context_is_none(headers: Any) -> None:
    assert trace_context(headers) == []


def test_the_last_of_two_counts() -> None:
    assert trace_context([OWN, PARENT]) == [PARENT]
