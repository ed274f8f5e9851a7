"""A step with each stream's state read once comes to what one event after the other does."""

from dataclasses import replace
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from stores.view_state.memory import MemoryTable
from tests.examples import some
from topology import Inspector, Record, Topology, park
from topology.engine.commit_unit import CommitUnit
from topology.engine.stream_task import StreamTask
from topology.verbs import (
    Aggregate,
    as_of_sequence,
    count,
    events,
    mean,
    most,
    session,
    tumbling,
)

NOW = 1_700_000_000_000
BAD = 13
Sent = tuple[str, str, int]
"""Topic, stream, value."""


def declared(*, one_by_one: bool) -> Topology:
    """Verbs of all kinds, one of whose functions cannot take `BAD`; some park what fails."""
    graph = Topology("t")
    left = graph.source("left", inspector=Inspector("id", "n"), keyed=True)
    right = graph.source("right", inspector=Inspector("id", "n"), keyed=True)
    moves = events(graph, left, time=lambda body: body["v"])
    good = moves.map(lambda body: {**body, "w": 1 // (body["v"] - BAD)})
    days = good.each().window(tumbling(5), keep=5).fold(count(), name="days", error=park())
    days.to_rows("days").filter(lambda row: row.value > 1).to_rows("twice")
    long = days.filter(lambda row: row.value > 1)
    long.by(lambda row: "all").fold(mean(lambda row: row.value), name="long").to_rows("long")
    good.each().window(session(3)).fold(most(lambda body: body["v"]), name="legs").to_rows("legs")
    hours = moves.by(lambda body: body["v"] % 2).window(tumbling(5))
    hours.fold(mean(lambda body: body["v"]), name="hours").to_rows("hours")
    flown = moves.lookup(
        events(graph, right).latest(name="latest"), key=lambda _: "R",
        at=as_of_sequence(left=lambda body: body["v"], keep=4),
        merge=lambda body, found: 1 // (body["v"] - BAD) if found is None else found["v"],
        name="flown",
    )  # fmt: skip
    flown.to_rows("flown", {"found": lambda value: value})
    if one_by_one:
        for view in list(graph.views.values()):
            assert view.plain_state
            graph.replace_view(replace(view, plain_state=False))
    return graph


class Run:
    """The topology's tasks, fed by each other, in steps of a given size."""

    def __init__(self, *, one_by_one: bool, atomic: bool) -> None:
        self.graph = declared(one_by_one=one_by_one)
        self.tables = {view: MemoryTable() for view in self.graph.views}
        self.tasks = {
            source.by_stream: StreamTask(self.graph, source, 0, self.tables, atomic=atomic)
            for source in self.graph.sources.values()
        }
        self.ends = dict.fromkeys(self.tasks, 0)
        self.said: list[Any] = []

    def feed(self, topic: str, messages: list[tuple[Any, Any, Any]]) -> None:
        """One step, and those that follow of it."""
        first = self.ends[topic]
        records = [
            Record(topic, 0, at, key, value, tuple(headers), NOW)
            for at, (key, value, headers) in enumerate(messages, first)
        ]
        self.ends[topic] += len(records)
        unit: CommitUnit = self.tasks[topic].process(records, NOW)
        for view, written in unit.rows.items():
            self.tables[view].write(written)
        # Cells of a stream are in no order.
        rows = {view: sorted(rows, key=repr) for view, rows in unit.rows.items()}
        self.said.append((rows, unit.colocated, unit.keyed, unit.sent, len(unit.reports)))
        for outputs in (unit.colocated, unit.keyed):
            for to, records_out in outputs.items():
                if to in self.tasks:
                    self.feed(to, [(key, value, headers) for key, value, _, headers in records_out])


@settings(max_examples=some(60), deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(("left", "left", "right")), st.sampled_from("ab"),
                st.integers(0, 16),
            ),
            min_size=1, max_size=8,
        ),
        max_size=6,
    ),
    st.booleans(),
)  # fmt: skip
def test_a_step_at_once_is_the_same_as_one_event_after_the_other(
    steps: list[list[Sent]], atomic: bool
) -> None:
    whole, single = Run(one_by_one=False, atomic=atomic), Run(one_by_one=True, atomic=atomic)
    numbers: dict[tuple[str, str], int] = {}
    for step in steps:
        for topic in ("left", "right"):
            messages = []
            for to, stream, value in step:
                if to == topic:
                    stream = "R" if topic == "right" else stream
                    number = numbers[topic, stream] = numbers.get((topic, stream), 0) + 1
                    body = {"id": stream, "n": number, "v": value}
                    messages.append((stream.encode(), orjson.dumps(body), ()))
            if messages:
                whole.feed(topic, messages)
                single.feed(topic, messages)
    assert whole.said == single.said
    for view, table in whole.tables.items():
        assert list(table.scan(b"", b"\xff")) == list(single.tables[view].scan(b"", b"\xff"))


def test_what_an_aggregate_of_the_user_keeps_is_read_anew_for_each_event() -> None:
    graph = Topology("t")
    moves = events(graph, graph.source("in", inspector=Inspector("id", "n")))
    pairs: Aggregate[Any, Any, int] = Aggregate(
        list, lambda kept, _: (*kept, 1), lambda kept: len(kept) if isinstance(kept, list) else -1
    )
    moves.each().fold(pairs, name="pairs")
    moves.each().fold(count(), name="counted")
    assert not graph.views["pairs"].plain_state
    assert graph.views["counted"].plain_state
