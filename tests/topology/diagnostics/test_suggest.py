"""suggest_timeouts: what times for gaps would have done to what was recorded."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, deliveries
from tests.topology.plain_model import Model
from topology import (
    Inspector,
    Topology,
    TopologyTestDriver,
    adaptive,
    earliest_seen,
    skip,
    spill,
    suggest_timeouts,
)
from topology.declaration.starts import Start, first
from topology.diagnostics.suggest import learned
from topology.sequencer.contiguous import ContiguousOrdering


def late_by(latenesses: list[int], lost: int = 0) -> list[tuple[str, int, int]]:
    """One stream per lateness: its second event first; and some whose first never comes."""
    arrivals = [(f"s{n}", 2, 0) for n in range(len(latenesses) + lost)]
    arrivals += [(f"s{n}", 1, ms) for n, ms in enumerate(latenesses)]
    return sorted(arrivals, key=lambda arrival: arrival[2])


def test_the_shortest_time_for_each_share_is_tried() -> None:
    latenesses = list(range(1, 1001))
    found = suggest_timeouts(late_by(latenesses), rates=(0.1, 0.01))
    assert [(s.after, s.wrong, s.wrong_skip) for s in found] == [
        (0.9, 100, 0.1),
        (0.99, 10, 0.01),
    ]


def test_what_a_time_costs_is_said() -> None:
    (short,) = suggest_timeouts(late_by([400] * 50, lost=50), rates=(), candidates=[2])
    assert (short.after, short.wrong, short.skipped, short.waiting) == (2, 0, 50, 0)
    assert short.max_delay == 2.0
    assert short.mean_delay == pytest.approx((50 * 0.4 + 50 * 0 + 50 * 2) / 150)
    assert "skip(after=2)" in str(short)
    assert "0.0000%" in str(short)


def test_a_time_that_is_too_short_is_seen_to_be() -> None:
    (found,) = suggest_timeouts(late_by([400] * 50), rates=(), candidates=[0.1])
    assert (found.wrong, found.wrong_skip, found.skipped) == (50, 1.0, 50)


def test_nothing_recorded_suggests_nothing_and_nothing_late_is_no_reason_to_wait() -> None:
    assert suggest_timeouts([]) == []
    assert suggest_timeouts([("a", 1, 0), ("a", 2, 5)]) == []


@given(deliveries())
def test_it_says_what_the_model_says(arrivals: list[Arrival]) -> None:
    recorded = [(arrival.stream, arrival.nth + 1, arrival.at) for arrival in arrivals]
    for suggestion in suggest_timeouts(recorded, candidates=[1, 3]):
        wanted = {stream: Model(after=round(suggestion.after * 1000)) for stream in "abc"}
        for at in range(0, 200_000, 1000):
            for arrival in arrivals:
                if arrival.at == at:
                    wanted[arrival.stream].arrive(arrival.nth + 1, at)
            for model in wanted.values():
                model.advance(at)
        assert suggestion.skipped == sum(model.skipped for model in wanted.values())
        assert suggestion.wrong == sum(model.late for model in wanted.values())
        assert suggestion.waiting == 0


def test_what_would_have_been_learned() -> None:
    chance = random.Random(1)
    arrivals = late_by([int(chance.expovariate(1 / 500)) for _ in range(5000)])
    after = learned(arrivals, adaptive(0.01, start=60, at_least=0.1))
    (tried,) = suggest_timeouts(arrivals, rates=(), candidates=[after])
    assert tried.wrong_skip <= 0.01
    assert 2 < after < 3


ARRIVALS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 14), st.sampled_from([0, 10, 1000, 3000])),
    max_size=40,
)
"""(stream, sequence, ms that pass before it)."""


@pytest.mark.parametrize("start", [first(), earliest_seen(after=1.003)])
@given(arrivals=ARRIVALS, buffer=st.sampled_from([1, 2, 64]))
def test_it_says_what_the_view_itself_does(
    start: Start, arrivals: list[tuple[str, int, int]], buffer: int
) -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector(stream="id", sequence="n"))
    topology.view(
        "board", of=source, handler=lambda event: (), start=start, gap=skip(after=2.005),
        buffer=buffer, full=spill(),
    )  # fmt: skip
    driver = TopologyTestDriver(topology)
    recorded = []
    for stream, sequence, passes in arrivals:
        driver.advance(passes / 1000)
        driver.pipe("orders", {"id": stream, "n": sequence})
        recorded.append((stream, sequence, driver.now))
    driver.advance(60)
    found = suggest_timeouts(
        recorded, rates=(), candidates=[2.005], ordering=topology.views["board"].ordering
    )
    counts = driver.counts("board")
    if arrivals:
        (told,) = found
        assert (told.wrong, told.skipped, told.waiting) == (counts.late, counts.skipped, 0)
        assert told.events == counts.received


def test_what_came_before_the_beginning_is_not_skipped() -> None:
    arrivals = [("a", 65_000 + n, n * 10) for n in (0, 1, 3)]
    ordering = ContiguousOrdering(open_after=1000)
    (told,) = suggest_timeouts(arrivals, rates=(), candidates=[2], ordering=ordering)
    assert told.skipped == 1
