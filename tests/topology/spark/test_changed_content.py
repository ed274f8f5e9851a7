"""On Spark as elsewhere, a handler that changes its event moves no event of another view."""

from typing import Any

import orjson
import pytest

from tests.topology.spark.fake_spark import FakeSpark
from topology import Emit, Event, Inspector, Topology, contiguous, linked
from topology.model.event import Record
from topology.spark.reference import refer

NOW = 1_000_000_000_000


def first(event: Event) -> None:
    event.content.pop("lane", None)
    event.content.pop("before", None)


def board(event: Event) -> list[Emit]:
    return [Emit("seen", event.stream, event.sequence)]


def made(name: str, sequence: Any, lane: str | None) -> Topology:
    topology = Topology(name)
    source = topology.source(f"{name}.in", inspector=Inspector("id", "n"), sequence=sequence)
    topology.view("first", of=source, handler=first)
    topology.view("board", of=source, handler=board, lane=lane)
    return topology


laned = made("laned", contiguous(), "lane")
chained = made("chained", linked("before"), None)


@pytest.mark.parametrize("topology", [laned, chained], ids=["lanes", "links"])
def test_a_handler_that_pops_a_field_moves_no_event_of_another_view(topology: Topology) -> None:
    spark = FakeSpark(topology, refer(topology))
    bodies = [{"id": "a", "n": n, "lane": "L", "before": n - 1 or None} for n in (1, 3, 2, 4)]
    for at, body in enumerate(bodies):
        record = Record(f"{topology.name}.in", 0, at, None, orjson.dumps(body), (), NOW)
        spark.batch([record], NOW + at, watermark=None)
    assert [sent.value for sent in spark.records["seen"]] == [b"1", b"2", b"3", b"4"]
    assert spark.counts["board"]["processed"] == 4
