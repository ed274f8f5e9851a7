"""The choices a source and its views have, as small values."""

from dataclasses import dataclass
from typing import Literal

from topology.errors import DeclarationError


@dataclass(frozen=True, slots=True)
class Contiguous:
    """Counting numbers: `start`, `start + step`, … without a gap in the source."""

    start: int = 1
    step: int = 1


@dataclass(frozen=True, slots=True)
class Wait:
    """A gap holds its stream back until the missing events come."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A gap is given up `after` seconds; what comes of it later is late."""

    after: float


@dataclass(frozen=True, slots=True)
class Spill:
    """An event beyond the ring waits as a row on disk until the ring reaches it."""


@dataclass(frozen=True, slots=True)
class Advance:
    """A failed event goes to the error log with all detail, counts as handled, and is passed."""


Gap = Wait | Skip
Full = Spill
OnError = Advance
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


def wait() -> Wait:
    """Wait for missing events for as long as it takes."""
    return Wait()


def skip(after: float) -> Skip:
    """Give a gap up `after` seconds from when the first event behind it arrived."""
    if isinstance(after, bool) or not isinstance(after, int | float) or not 0 < after < 1e10:
        raise DeclarationError(
            f"skip(after={after!r}): after must be a number of seconds above 0; "
            "to wait for ever, use wait()"
        )
    return Skip(float(after))


def spill() -> Spill:
    """Keep what does not fit into the ring as rows on disk, in sequence."""
    return Spill()


def advance() -> Advance:
    """Log a handler's failure with full detail, record the event as handled, and go on."""
    return Advance()
