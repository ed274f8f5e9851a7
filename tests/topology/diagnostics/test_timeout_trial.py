"""A trial on recorded events says of late and skipped ones what the view itself says."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import (
    Inspector,
    Topology,
    TopologyTestDriver,
    contiguous,
    earliest_seen,
    opened_by,
    skip,
    spill,
)
from topology.diagnostics.normalised_arrivals import NormalisedArrivals
from topology.diagnostics.suggest import suggested
from topology.model.event import Event, Record
from topology.sequencer.contiguous import ContiguousOrdering

# No deadline falls on an arrival: these come at multiples of 10 ms.
MIDWAY, OPENED = {"start": earliest_seen(after=1.003)}, {"start": opened_by("On")}
CLOSING = {"closes": "End", "retention": 3.001}
AGAIN = CLOSING | {"reopen": "start"}
VIEWS: dict[str, dict[str, Any]] = {
    "first": {},
    "midway": MIDWAY,
    "opened": OPENED,
    "closing": CLOSING,
    "closing, reopening": AGAIN,
    "closing, kept": CLOSING | {"retention": 10_000},
    "opened, closing": OPENED | AGAIN,
    "midway, closing": MIDWAY | AGAIN,
    "lanes": {"lane": "part"},
    "lanes, midway, closing": {"lane": "part"} | MIDWAY | CLOSING,
    "in twos": {},
}
ARRIVALS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(1, 14),
        st.sampled_from([0, 10, 1000, 3000]),
        st.sampled_from(["On", "Is", "Is", "Is", "End"]),
    ),
    max_size=40,
)
"""(stream, number, ms that pass before it, kind)."""


@pytest.mark.parametrize("name", VIEWS)
@given(arrivals=ARRIVALS, buffer=st.sampled_from([1, 2, 64]))
def test_it_says_what_the_view_itself_does(
    name: str, arrivals: list[tuple[str, int, int, str]], buffer: int
) -> None:
    topology, step = Topology("shop"), 2 if name == "in twos" else 1
    source = topology.source(
        "orders", inspector=Inspector(stream="id", sequence="n", kind="kind"),
        sequence=contiguous(step, step),
    )  # fmt: skip
    topology.view(
        "board", of=source, gap=skip(after=2.005), buffer=buffer, full=spill(), **VIEWS[name]
    )(lambda event: ())
    board = topology.views["board"]
    driver = TopologyTestDriver(topology)
    recorded = NormalisedArrivals(board.ordering.opens | board.ordering.closes)
    for stream, number, passes, kind in arrivals:
        driver.advance(passes / 1000)
        content = {"id": stream, "n": step * number, "kind": kind, "part": number % 2}
        driver.pipe("orders", content)
        message = Record("orders", 0, 0, None, None)
        event = Event(stream, step * number, kind, content, message, driver.now)
        (event,) = [event] if board.split is None else board.split([event])
        recorded.add([event.stream], event.sequence, kind, driver.now)
    driver.advance(60)
    counts = driver.counts("board")
    found = suggested([recorded.events], board.ordering, rates=(), candidates=[2.005]).suggestions
    assert len(found) == bool(arrivals)
    for told in found:
        assert (told.wrong, told.skipped, told.waiting) == (
            counts.late, counts.skipped, counts.waiting,
        )  # fmt: skip
        assert told.events == counts.received


def test_each_partition_goes_by_its_own_clock() -> None:
    """A gap of one is not given up because another one's clock is ahead."""

    def part(*arrivals: tuple[int, int]) -> NormalisedArrivals:
        made = NormalisedArrivals()
        for sequence, at in arrivals:
            made.add([f"s{arrivals[0][1]}"], sequence, None, at)
        return made

    slow, ahead = part((2, 0), (1, 900)), part((1, 500), (2, 90_000))
    tried = [slow.events, ahead.events]
    (told,) = suggested(tried, ContiguousOrdering(), rates=(), candidates=[1]).suggestions
    assert (told.wrong, told.skipped, told.events) == (0, 0, 4)


def test_what_is_tried_is_counted_as_it_goes() -> None:
    ticks: list[int] = []

    def events() -> Iterator[Event]:
        message = Record("", 0, 0, None, None)
        return (Event("a", n, None, None, message, n) for n in range(1, 10_001))

    suggested([events], ContiguousOrdering(), rates=(), candidates=[1, 2], progress=ticks.append)
    assert sum(ticks) == 3 * 10_000
