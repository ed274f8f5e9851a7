"""What becomes of an event whose sequence was given up before it came."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from topology.declaration.policies.policy import Policy
from topology.model.errors import DeclarationError
from topology.model.event import Event
from topology.model.names import plain_function
from topology.model.printable import printable

MOST = 1_000_000
"""Events of one stream that a rebuild may be allowed to hold in memory."""


class OnLate(Policy):
    """What becomes of a late event."""

    __slots__ = ()
    choices = "late_topic() or rebuild_stream(…)"

    rebuilds: ClassVar[bool] = False
    """Whether it may be put in its place."""

    @property
    def refusal(self) -> str | None:
        """Why it was not, where it might have been."""
        return None


@dataclass(frozen=True, slots=True)
class LateTopic(OnLate):
    """It goes to `<topology>.late`, and is counted."""


@dataclass(frozen=True, slots=True)
class RebuildStream(OnLate):
    """Its stream is rebuilt in that view, with the event in its place.

    limit: events of a stream, at most, that are read again; those of a longer one are late.
    when: decides which late events are worth a rebuild; None for all of them.
    """

    limit: int = 10_000
    when: Callable[[Event], bool] | None = None
    rebuilds: ClassVar[bool] = True
    untried = "what is late is counted; nothing is rebuilt"

    @property
    def more_than_a_stream(self) -> str:
        return "it reads a stream's history again while all else goes on; use late_topic()"

    def wants(self, event: Event) -> bool:
        """Whether the stream is to be rebuilt for a late event."""
        if self.when is None:
            return True
        try:
            return bool(self.when(event))
        except Exception:
            return False

    @property
    def refusal(self) -> str:
        reason = too_long(self.limit)
        return reason if self.when is None else f"{reason}, or `when` says no to this event"


def too_long(limit: int) -> str:
    """Why a stream of more events is not rebuilt."""
    return f"it has more than the {limit} events that may be read again"


def late_topic() -> LateTopic:
    """Send late events to `<topology>.late`, with view, sequence and origin as headers."""
    return LateTopic()


def rebuild_stream(
    limit: int = 10_000, *, when: Callable[[Event], bool] | None = None
) -> RebuildStream:
    """Read the stream's history again, and handle all of it in sequence from a fresh state.

    Its row changes go out again, with an epoch that is one higher. A late event whose stream is
    not rebuilt goes to `<topology>.late`, with the reason.

    Args:
        limit: the most events of a stream that are read again. A stream of more events, or one
            whose history is no longer there, is not rebuilt.
        when: decides which late events are worth a rebuild: a function or a callable object of
            yours. It may depend on the event only: no clock, no I/O. If it raises, the stream is
            not rebuilt.

    Raises:
        DeclarationError: a value is out of its range.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise DeclarationError(
            f"rebuild_stream(limit={limit!r}): limit must be a number of events from 1 to {MOST}: "
            "all of a stream's are held in memory while it is rebuilt"
        )
    if when is not None:
        plain_function(f"rebuild_stream(when={printable(repr(when))})", when, "event")
    return RebuildStream(limit, when)
