"""A stream's whole history in sequence: what the sequencer releases if nothing more can come."""

from collections.abc import Iterable, Sequence

from topology.model.event import Event
from topology.sequencer.sequencer import LAST, Ordering, step
from topology.sequencer.timers import Timers


class _New:
    """The State of a stream that was never seen."""

    def __init__(self, ordering: Ordering) -> None:
        self._first = ordering.first

    def progress(self, stream: str) -> int:
        return self._first

    def spilled(self, stream: str, first: int, last: int) -> Iterable[Event]:
        return ()


def replayed(ordering: Ordering, events: Sequence[Event]) -> list[Event]:
    """The events of one stream in sequence, each once: of copies the first.

    events: in order of arrival. Nothing is late: gaps are given up only when all of them are there.
    """
    size = max(ordering.size, len(events))
    patient = ordering.at_once(
        size=size, open_after=None, drain=len(events), portion=LAST, jump=LAST
    )
    found = step(patient, _New(ordering), Timers(), events, now=LAST)
    assert not found.unfinished, "a history is taken whole"
    return found.ready
