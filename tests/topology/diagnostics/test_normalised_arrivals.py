"""Recorded arrivals, gone through again: as they came, or as if their streams began anew."""

from hypothesis import given
from hypothesis import strategies as st

from topology.diagnostics.normalised_arrivals import NormalisedArrivals
from topology.diagnostics.suggest import Suggested, suggested
from topology.sequencer.contiguous import ContiguousOrdering

Arrived = tuple[str, int, int]


def recorded(arrivals: list[Arrived]) -> NormalisedArrivals:
    made = NormalisedArrivals()
    for stream, sequence, at in arrivals:
        made.add([stream], sequence, None, at)
    return made


def told(arrivals: list[Arrived], begin: int | None = None) -> list[Arrived]:
    return [(e.stream, e.sequence, e.arrived) for e in recorded(arrivals).events(0, begin)]


def test_each_stream_begins_at_the_start() -> None:
    arrivals = [("a", 43, 1), ("b", 7, 2), ("a", 42, 3), ("a", 45, 4)]
    assert told(arrivals) == arrivals
    assert told(arrivals, 1) == [("a", 2, 1), ("b", 1, 2), ("a", 1, 3), ("a", 4, 4)]
    assert recorded(arrivals).span == (1, 4)
    assert recorded([]).span is None


def test_kinds_that_matter_and_lanes_are_kept() -> None:
    made = NormalisedArrivals(["On", "End"], columns=2)
    made.add(["a", "a|1"], 1, "On", 5)
    made.add(["a", "a|2"], 2, "Is", 6)
    assert [(e.stream, e.kind) for e in made.events()] == [("a", "On"), ("a", None)]
    assert [e.stream for e in made.events(1)] == ["a|1", "a|2"]


@given(st.permutations(range(1, 9)), st.integers(0, 1000))
def test_what_is_suggested_does_not_depend_on_where_a_stream_is(
    order: list[int], passed: int
) -> None:
    def tried(arrivals: list[Arrived], begin: int | None = None) -> Suggested:
        made = recorded(arrivals)
        return suggested([lambda: made.events(0, begin)], ContiguousOrdering(size=1 << 40))

    whole = [("a", sequence, at * 700) for at, sequence in enumerate(order)]
    later = [(stream, sequence + passed, at) for stream, sequence, at in whole]
    assert tried(later, 1) == tried(whole)
