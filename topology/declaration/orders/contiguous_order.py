"""Contiguous numbers: `start`, `start + step`, … without a gap in the source."""

from dataclasses import dataclass
from typing import Any, ClassVar

from topology.declaration.orders.stream_order import StreamOrder
from topology.inspectors.inspector import Compiles, Inspect, InspectorFunction, Normalised
from topology.model.errors import DeclarationError
from topology.model.event import Event
from topology.sequencer.contiguous import ContiguousOrdering

JUMP = 10**12
"""Sequences that a stream may be ahead: 30,000 events a second for a year. Times are beyond it."""


@dataclass(frozen=True, slots=True)
class Contiguous(StreamOrder):
    """jump: how many numbers a stream can be ahead of what it is known to be at; None for JUMP."""

    start: int = 1
    step: int = 1
    jump: int | None = None
    counts: ClassVar[bool] = True

    def follows(self, event: Event, last: int | None) -> bool:
        return event.sequence == (self.start if last is None else last + self.step)

    def ordering(self, **policies: Any) -> ContiguousOrdering:
        jump = self.step * (self.jump or JUMP)
        return ContiguousOrdering(self.start, self.step, jump=jump, **policies)

    def compile(self, inspector: Compiles | InspectorFunction) -> Inspect:
        if isinstance(inspector, Normalised) and inspector.holes:
            raise DeclarationError(
                f"inspector={inspector!r} with {self}: its sequences are {inspector.holes}; a "
                "contiguous stream would wait for ever at the first hole"
            )
        return StreamOrder.compile(self, inspector)


def contiguous(start: int = 1, step: int = 1, jump: int | None = None) -> Contiguous:
    """Order by contiguous numbers, without a gap.

    Args:
        start: the first number of a stream.
        step: the distance of neighbouring numbers, at least 1.
        jump: the largest distance that an event can be ahead of its stream; 10^12 unless given. One
            further ahead goes to the dead topic with the reason, and its stream goes on without it.
            Where a stream is joined midway, its first event may have any sequence.

    Raises:
        DeclarationError: a value is out of its range.
    """
    if isinstance(start, bool) or not isinstance(start, int):
        raise DeclarationError(f"contiguous(start={start!r}): start must be an int")
    if not -(2**63) <= start < 2**63:
        raise DeclarationError(f"contiguous(start={start!r}): start must fit into 64 bits")
    if isinstance(step, bool) or not isinstance(step, int) or step < 1:
        raise DeclarationError(f"contiguous(step={step!r}): step must be an int of at least 1")
    if start - step < -(2**63):
        raise DeclarationError(
            f"contiguous(start={start!r}, step={step!r}): start - step must fit into 64 bits; "
            f"start at {step - 2**63} or above"
        )
    whole = isinstance(jump, int) and not isinstance(jump, bool)
    if jump is not None and not (whole and 1 <= jump <= 2**64):
        raise DeclarationError(f"contiguous(jump={jump!r}): jump must be an int from 1 to 2^64")
    return Contiguous(start, step, jump)
