"""What a view does with an event whose handler failed: advance, retry, park, halt."""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

from topology.declaration.policies.full import Full
from topology.declaration.policies.policy import Policy
from topology.declaration.seconds import is_seconds
from topology.model.errors import DeclarationError
from topology.model.event import Event
from topology.sequencer.ordering import Beyond

RETRIES = 1_000
"""The most retries of one event."""
BACKOFF_LIMIT = 86_400.0
"""The most seconds between two retries."""


class Failing(Policy):
    """An error policy that is the same for every event."""

    __slots__ = ()
    choices = "advance(), retry(…), park(), halt() or an object with on_error(event, error)"


@dataclass(frozen=True, slots=True)
class Advance(Failing):
    """A failed event goes to the error log with all detail, counts as handled, and is passed."""


@dataclass(frozen=True, slots=True)
class Park(Failing):
    """A failed event and the later ones of its stream are set aside in order, in this view."""


@dataclass(frozen=True, slots=True)
class Halt(Failing, Full):
    """The view stops after the step in hand, until an operator resumes it."""

    beyond: ClassVar[Beyond] = "halt"
    untried = "tried as spill(); the view does not halt"

    @property
    def more_than_a_stream(self) -> str:
        return (
            "it stops a whole view; as an error policy, use park(); as a full one, use spill() or "
            "redeliver()"
        )


@dataclass(frozen=True, slots=True)
class Retry(Failing):
    """A failed event is handled again after `backoff` seconds, which double up to `limit`.

    After `times` retries comes `then`. Meanwhile its stream waits, and no other does.
    """

    times: int
    backoff: float
    then: Advance | Park = field(default_factory=Advance)
    limit: float = 60.0

    def delay(self, attempt: int) -> float:
        """Seconds before retry number `attempt`, counted from 1."""
        return min(self.backoff * 2.0 ** min(attempt - 1, 64), self.limit)


@runtime_checkable
class ErrorPolicy(Protocol):
    """Decides for each failed event: a class of yours, given as `view(error=…)`."""

    def on_error(self, event: Event, error: BaseException) -> Advance | Retry | Park:
        """Decide what happens to a failed event.

        The engine asks again after each retry, so the answer may depend on the event and the error
        only: no clock, no I/O. If the method raises, or returns anything else, the event is parked.

        Args:
            event: the event whose handler failed.
            error: what the handler raised.

        Returns:
            `advance()`, `retry(…)` or `park()`.
        """


OnError = Failing | ErrorPolicy


def advance() -> Advance:
    """Log a handler's failure with full detail, record the event as handled, and go on."""
    return Advance()


def park() -> Park:
    """Set the failed event and its stream's later ones aside in order, until they are redriven."""
    return Park()


def halt() -> Halt:
    """Stop the view until an operator resumes it.

    As an error policy, the failed event waits in front of its stream. As a full policy, the event
    that did not fit is kept on disk.
    """
    return Halt()


def retry(
    times: int, backoff: float, then: Advance | Park | None = None, *, limit: float | None = None
) -> Retry:
    """Handle a failed event again, while its stream waits.

    Args:
        times: the most retries, from 1 to 1000.
        backoff: seconds before the first retry; each next delay is twice as long.
        then: what happens when the last retry fails: `advance()` (unless given) or `park()`.
        limit: the longest delay, in seconds; a minute, or `backoff` if that is longer, unless
            given.

    Raises:
        DeclarationError: a value is out of its range.
    """
    call = f"retry(times={times!r}, backoff={backoff!r})"
    if isinstance(times, bool) or not isinstance(times, int) or not 1 <= times <= RETRIES:
        raise DeclarationError(f"{call}: times must be an int from 1 to {RETRIES}")
    if not is_seconds(backoff, BACKOFF_LIMIT):
        raise DeclarationError(
            f"{call}: backoff must be a number of seconds above 0, {BACKOFF_LIMIT:.0f} at most"
        )
    limit = max(60.0, float(backoff)) if limit is None else limit
    if not is_seconds(limit, BACKOFF_LIMIT) or limit < backoff:
        raise DeclarationError(
            f"{call}: limit={limit!r} must be a number of seconds, backoff at least and "
            f"{BACKOFF_LIMIT:.0f} at most"
        )
    then = Advance() if then is None else then
    if not isinstance(then, Advance | Park):
        raise DeclarationError(f"{call}: then={then!r}; use advance() or park()")
    return Retry(times, float(backoff), then, float(limit))
