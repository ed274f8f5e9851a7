"""What waits, or is next, is placed by a shorter way, which comes to what the long one does."""

from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from tests.topology.sequencer.held import Held, event
from topology import Record
from topology.model.event import Event
from topology.sequencer.contiguous import ContiguousOrdering, ContiguousRun
from topology.sequencer.progress import Progress
from topology.sequencer.run import Run
from topology.sequencer.sequencer import Step, step
from topology.sequencer.timers import Timers

BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 14)), max_size=8), max_size=8
)
ORDERINGS = st.builds(
    ContiguousOrdering,
    size=st.integers(1, 6),
    drain=st.integers(1, 4),
    jump=st.sampled_from([3, 5, 1000]),
    skip_after=st.sampled_from([None, 2]),
    learn=st.booleans(),
)


class Known:
    """A state that has what earlier steps left, and no rows."""

    def __init__(self) -> None:
        self.streams: dict[str, int | Progress] = {}

    def progress(self, stream: str) -> int | Progress:
        return self.streams.get(stream, 0)

    def spilled(self, stream: str, first: int, last: int) -> list[Event]:
        return []


def told(result: Step) -> Any:
    left = {
        stream: progress if isinstance(progress, int)
        else (progress.last, progress.since, progress.skipped, progress.spilled,
              sorted(event.sequence for event in progress.ring or ()))
        for stream, progress in result.changed.items()
    }  # fmt: skip
    events = (result.ready, result.buffered, result.released, result.late, result.impossible)
    places = [[(event.stream, event.sequence, event.arrived) for event in each] for each in events]
    return left, places, result.duplicates, result.skipped, result.filled, result.unfinished


@settings(max_examples=some(300))
@given(batches=BATCHES, ordering=ORDERINGS)
def test_the_shorter_way_comes_to_what_the_long_one_comes_to(
    batches: list[list[tuple[str, int]]], ordering: ContiguousOrdering
) -> None:
    ways = [(Known(), Timers(), list[str]()) for _ in range(2)]
    for now, batch in enumerate(batches, 1):
        found = []
        for at, (state, timers, unfinished) in enumerate(ways):
            events = [
                Event(stream, n, None, None, Record("in", 0, n, b"", b"x"), now)
                for stream, n in batch
                if n - (p if isinstance(p := state.progress(stream), int) else p.last)
                <= ordering.size
            ]
            with patch.object(ContiguousRun, "place_all", Run.place_all if at else _SHORT):
                result = step(ordering, state, timers, events, now=now, resume=unfinished)
            unfinished[:] = result.unfinished
            state.streams |= result.changed
            found.append((told(result), timers.next, timers.clock))
        assert found[0] == found[1]


_SHORT = ContiguousRun.place_all


def test_what_waits_is_not_copied_for_what_comes() -> None:
    held = Held(ContiguousOrdering(size=20_000))
    held.take(*(event("a", sequence) for sequence in range(2, 10_002)))
    before = held.known["a"]
    assert isinstance(before, Progress)
    assert before.ring is not None
    slots = before.ring.slots
    held.take(event("a", 10_002))
    after = held.known["a"]
    assert isinstance(after, Progress)
    assert after.ring is not None
    assert after.ring.slots is slots
    assert len(slots) == 10_001
