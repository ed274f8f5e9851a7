"""How a source's sequences order a stream: contiguous, linked, monotonic, or the user's own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from topology.declaration.seconds import is_seconds
from topology.inspectors.fields import Field, Header, RecordKey, getter
from topology.model.errors import DeclarationError
from topology.model.event import Event
from topology.model.names import one_argument

LOWEST = -(2**63) + 1
"""The lowest sequence of an order without a start: one below it still fits into 64 bits."""

JUMP = 10**12
"""Sequences that a stream may be ahead: 30,000 events a second for a year. Times are beyond it."""

Previous = Callable[[Event], Any]
"""A function of an event to the sequence of its predecessor, None if it has none."""


@dataclass(frozen=True, slots=True)
class Contiguous:
    """Contiguous numbers: `start`, `start + step`, … without a gap in the source.

    jump: how many of them a stream can be ahead of what it is known to be at, JUMP unless given.
    """

    start: int = 1
    step: int = 1
    jump: int | None = None
    kind: ClassVar[Literal["contiguous"]] = "contiguous"


@dataclass(frozen=True, slots=True)
class Linked:
    """Each event names its predecessor; sequences grow along the chain."""

    previous: Field | Previous
    first: Any = None
    kind: ClassVar[Literal["linked"]] = "linked"
    start: ClassVar[int] = LOWEST
    step: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Monotonic:
    """Sequences only grow: an event waits `settle` seconds for lower ones."""

    settle: float
    kind: ClassVar[Literal["monotonic"]] = "monotonic"
    start: ClassVar[int] = LOWEST
    step: ClassVar[int] = 1


@runtime_checkable
class Order(Protocol):
    """Decides what follows what: a class of yours, given as `source(…, sequence=…)`.

    Sequences must grow along the order: progress is one number per view and stream, by which a view
    recognises a copy.
    """

    def follows(self, event: Event, last: int | None) -> bool:
        """Say whether an event is the next of its stream; the view then handles it.

        The engine asks for the lowest event that waits, as often as it likes. The answer may depend
        on the arguments only: no clock, no I/O, no memory. If the method raises, the answer is no,
        and the event waits as behind a gap. An event whose sequence is one above `last` always
        follows: nothing can come between.

        Args:
            event: the lowest event of its stream that is not handled. A message that was stored and
                that the inspector no longer understands has neither kind nor content.
            last: the sequence of the event that was handled last, None if the stream has yet to
                begin.

        Returns:
            Whether nothing is missing between the two.
        """


@dataclass(frozen=True, slots=True)
class Followed:
    """The user's own order."""

    order: Order
    kind: ClassVar[Literal["followed"]] = "followed"
    start: ClassVar[int] = LOWEST
    step: ClassVar[int] = 1

    def follows(self, event: Event, last: int | None) -> bool:
        """What the order says; it is asked for each event, and a mistake in it stops no view."""
        try:
            return bool(self.order.follows(event, last))
        except Exception:
            return False


Sequence = Contiguous | Linked | Monotonic | Followed


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


def linked(previous: Field | Previous, first: Any = None) -> Linked:
    """Order by links: each event names its predecessor, as document revisions do.

    Sequences must grow along the chain: numbers, times, or revisions such as `12-abc`, whose number
    leads.

    Args:
        previous: where the predecessor's sequence is: a field path, `key()`, `header("name")`, or a
            function of the event.
        first: the value that the first event of a stream has there, besides null or nothing at all.

    Raises:
        DeclarationError: a value is wrong.
    """
    if isinstance(previous, str | RecordKey | Header):
        getter(previous, "previous")
    elif not callable(previous):
        raise DeclarationError(
            f"linked(previous={previous!r}): give a field path such as 'meta.previous', key(), "
            "header('name'), or a function of the event"
        )
    else:
        one_argument(f"linked(previous={previous!r})", previous, "event")
    return Linked(previous, first)


def monotonic(settle: float) -> Monotonic:
    """Order by times, or other values that grow but do not count.

    An event waits from its arrival until it has settled, and is then released with everything
    lower.

    Args:
        settle: seconds that an event waits.

    Raises:
        DeclarationError: `settle` is no such number.
    """
    if not is_seconds(settle):
        raise DeclarationError(
            f"monotonic(settle={settle!r}): settle must be a number of seconds above 0: how much "
            "later than a higher one an event may arrive"
        )
    return Monotonic(float(settle))
