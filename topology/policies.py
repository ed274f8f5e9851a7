"""The choices a source and its views have, as small values; each policy has a file of its own."""

from dataclasses import dataclass
from typing import Literal

from topology.errors import DeclarationError
from topology.on_error import Advance, Halt, OnError, Park, Retry, advance, halt, park, retry
from topology.on_full import Full, Redeliver, Spill, redeliver, spill
from topology.on_gap import Adaptive, Gap, Skip, Wait, adaptive, skip, wait
from topology.on_late import LateTopic, OnLate, late_topic

__all__ = [
    "Adaptive",
    "Advance",
    "Contiguous",
    "Full",
    "Gap",
    "Halt",
    "LateTopic",
    "OnError",
    "OnLate",
    "OnUnknown",
    "Park",
    "Redeliver",
    "Retry",
    "Skip",
    "Spill",
    "Wait",
    "adaptive",
    "advance",
    "contiguous",
    "halt",
    "late_topic",
    "park",
    "redeliver",
    "retry",
    "skip",
    "spill",
    "wait",
]


@dataclass(frozen=True, slots=True)
class Contiguous:
    """Counting numbers: `start`, `start + step`, … without a gap in the source."""

    start: int = 1
    step: int = 1


OnUnknown = Literal["pass", "topic"]


def contiguous(start: int = 1, step: int = 1) -> Contiguous:
    """Sequences are counting numbers from `start` in steps of `step` (at least 1)."""
    if isinstance(start, bool) or not isinstance(start, int):
        raise DeclarationError(f"contiguous(start={start!r}): start must be an int")
    if not -(2**63) <= start < 2**63:
        raise DeclarationError(f"contiguous(start={start!r}): start must fit into 64 bits")
    if isinstance(step, bool) or not isinstance(step, int) or step < 1:
        raise DeclarationError(f"contiguous(step={step!r}): step must be an int of at least 1")
    return Contiguous(start, step)
