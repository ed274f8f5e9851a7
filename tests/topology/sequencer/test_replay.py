"""A stream's history is taken whole, however much of it waited, and for what."""

import random

import pytest

from tests.topology.sequencer.held import event
from topology.sequencer.contiguous import ContiguousOrdering
from topology.sequencer.monotonic import MonotonicOrdering
from topology.sequencer.ordering import Ordering
from topology.sequencer.replay import replayed


@pytest.mark.parametrize(
    "ordering",
    [
        ContiguousOrdering(size=4, drain=3, portion=100, skip_after=1000),
        MonotonicOrdering(size=4, drain=3, portion=100, settle=1000),
    ],
)
def test_more_than_a_step_releases_is_not_cut_off(ordering: Ordering) -> None:
    """A rebuild took what a step lets go of at once, 16 MiB, for all there was."""
    events = [event("a", n, at=n, value=b"x" * 200) for n in range(1, 400) if n != 30]
    random.Random(5).shuffle(events)
    found = replayed(ordering, events)
    assert [each.sequence for each in found] == sorted(each.sequence for each in events)
