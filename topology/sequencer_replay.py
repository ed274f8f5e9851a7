"""A stream's whole history in sequence: what the sequencer releases if nothing more can come."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from topology.event import Event
from topology.sequencer import LAST, Ordering, step
from topology.timers import Timers


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
    patient = replace(
        ordering,
        size=max(ordering.size, len(events)),
        skip_after=0,
        open_after=None,
        settle=0,
        drain=len(events),
        full="spill",
        learn=False,
        jump=LAST,
    )
    return step(patient, _New(ordering), Timers(), events, now=LAST).ready
