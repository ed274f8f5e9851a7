"""How far a view is in a stream, as its rows say."""

from collections.abc import Iterable
from dataclasses import dataclass

from topology.diagnostics.explain.missing import Missing
from topology.diagnostics.explain.stream_context import (
    Arrival,
)
from topology.model.event import Event


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """How far the view is in a stream, as its rows say.

    Attributes:
        last: the last processed sequence, None if the view has seen nothing of the stream.
        waits: the first sequences that wait, of `ring` in the ring of `slots` slots and `spilled`
            on disk beyond it; `parked` of them are set aside.
        missing: the first ranges of `ranges`, noticed at `since` (ms; None if nothing waits).
        attempts: of the retry that the stream is held for, the next one at `due` (ms).
        epoch: how often the stream was rebuilt or dropped.
        rebuilt_with: the first late events that the stream is to be rebuilt with.
    """

    last: int | None
    ring: int
    slots: int
    spilled: int
    parked: int
    waits: tuple[int, ...]
    missing: tuple[Missing, ...]
    ranges: int
    since: int | None
    attempts: int | None
    due: int | None
    epoch: int
    rebuilt_with: tuple[int, ...]


def waits_of(events: Iterable[Event]) -> tuple[list[int], Arrival | None]:
    """(the sequences that wait, the one of them that arrived last)."""
    sequences: list[int] = []
    newest: Event | None = None
    for event in events:
        sequences.append(event.sequence)
        if newest is None or event.arrived >= newest.arrived:
            newest = event
    if newest is None:
        return sequences, None
    message = newest.message
    return sequences, Arrival(
        newest.sequence, message.topic, message.partition, message.offset, newest.arrived
    )
