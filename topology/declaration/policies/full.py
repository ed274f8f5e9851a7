"""What a view does with an event that its stream's ring cannot take: redeliver, spill, halt."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from topology.declaration.policies.gap import Gap
from topology.declaration.policies.policy import Policy
from topology.declaration.seconds import is_seconds
from topology.model.errors import DeclarationError
from topology.model.names import plain_function
from topology.model.printable import printable
from topology.sequencer.ordering import Beyond

DELAYS_IN_A_GAP = 4
"""How often an event must be able to come again before the gap that it fills is given up."""
GAPS_IN_A_LIMIT = 2
"""How many gaps, each as long as gaps may last, an event must outlive."""
MOST_ATTEMPTS = 1_000_000
DELAY = 1.0
LONGEST = 60.0
"""Seconds that a delay grows to at most, where nothing moves or an event is far from the ring."""


class Full(Policy):
    """What becomes of an event beyond the ring."""

    __slots__ = ()
    choices = "spill(), redeliver(…) or halt()"

    beyond: ClassVar[Beyond] = "spill"
    """The same in the sequencer's terms."""
    limit: int | None = None
    """How often it comes again in vain before it is dead, None for as often as it takes."""

    def longest(self, gap: Gap) -> float:
        """The most seconds that an event stays away before it is tried again; 0 if none does."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Redeliver(Full):
    """The event goes to the view's redelivery topic and comes again when the ring has room.

    delay: seconds until it is tried without knowing that. limit: how often it may be tried while
    its stream does not move, before it goes to the dead topic; None for as often as it takes.
    backoff: chooses the delays, None for those that double.
    """

    delay: float = DELAY
    limit: int | None = None
    backoff: Callable[[int, int], float] | None = None
    beyond: ClassVar[Beyond] = "redeliver"
    untried = "tried as spill(); nothing goes away and comes again"

    def longest(self, gap: Gap) -> float:
        return max(self.delay, min(LONGEST, gap.least / DELAYS_IN_A_GAP))


@dataclass(frozen=True, slots=True)
class Spill(Full):
    """An event beyond the ring waits as a row on disk until the ring reaches it."""


def redeliver(
    delay: float = DELAY,
    limit: int | None = None,
    *,
    backoff: Callable[[int, int], float] | None = None,
) -> Redeliver:
    """Let an event beyond the ring come again when there is room, tried after `delay` seconds.

    Nothing of it is held on disk. The delay doubles while the stream does not move, and grows with
    the distance from the ring, up to a minute.

    Args:
        delay: seconds until the first try, from 0.001 to 86400.
        limit: how often an event may be tried while its stream does not move, before it goes to
            the dead topic; None for as often as it takes.
        backoff: chooses the delays: a function or a callable object of yours that takes the number
            of the attempt, from 1, and the distance of the event's sequence from that of its
            stream, and returns seconds. The engine keeps them between a millisecond and a minute
            (a quarter of the gap's time where gaps are skipped, `delay` if that is more). If it
            raises, or returns no number, the delay is the built-in one.

    Raises:
        DeclarationError: a value is out of its range.
    """
    call = f"redeliver(delay={delay!r}, limit={limit!r})"
    if not is_seconds(delay, 86_400) or delay < 0.001:
        raise DeclarationError(
            f"{call}: delay must be a number of seconds, 0.001 at least and 86400 at most"
        )
    whole = isinstance(limit, int) and not isinstance(limit, bool)
    if limit is not None and not (whole and 1 <= limit <= MOST_ATTEMPTS):
        raise DeclarationError(
            f"{call}: limit must be an int from 1 to {MOST_ATTEMPTS}, or None for no end"
        )
    if backoff is not None:
        given = f"redeliver(backoff={printable(repr(backoff))})"
        plain_function(given, backoff, "attempt", "distance")
    return Redeliver(float(delay), limit, backoff)


def spill() -> Spill:
    """Keep what does not fit into the ring as rows on disk, in sequence."""
    return Spill()


def check_full(view: str, full: Full, gap: Gap) -> None:
    """Whether redelivery and the gap policy go together. Raises DeclarationError."""
    if not isinstance(full, Redeliver) or not gap.skips:
        return
    if full.delay * DELAYS_IN_A_GAP > gap.least:
        raise DeclarationError(
            f"view {view!r}: redeliver(delay={full.delay:g}) with a gap that is skipped after "
            f"{gap.least:g} s would skip events that are only on their way back; make the delay "
            f"{gap.least / DELAYS_IN_A_GAP:g} s or less, skip later, or use spill()"
        )
    if full.limit is None:
        return
    lasts = full.delay * full.limit
    if lasts < gap.most * GAPS_IN_A_LIMIT:
        raise DeclarationError(
            f"view {view!r}: redeliver(delay={full.delay:g}, limit={full.limit}) gives an event up "
            f"after {lasts:g} s, with gaps that may last {gap.most:g} s; make the limit "
            f"{math.ceil(gap.most * GAPS_IN_A_LIMIT / full.delay)} or more, leave it out, or use "
            "spill()"
        )
