"""What a view does with an event that its stream's ring cannot take: redeliver, spill, halt."""

import math
from dataclasses import dataclass

from topology.errors import DeclarationError
from topology.on_error import Halt
from topology.on_gap import Gap, Skip

DELAYS_IN_A_GAP = 4
"""How often an event must be able to come again before the gap that it fills is given up."""
GAPS_IN_A_LIMIT = 2
"""How many gaps, each as long as gaps may last, an event must outlive."""
MOST_ATTEMPTS = 1_000_000
DELAY, LIMIT = 1.0, 600


@dataclass(frozen=True, slots=True)
class Redeliver:
    """The event goes to the view's redelivery topic and comes again after `delay` seconds.

    One that does not fit for the `limit`th time and more goes to the dead topic.
    """

    delay: float = DELAY
    limit: int = LIMIT


@dataclass(frozen=True, slots=True)
class Spill:
    """An event beyond the ring waits as a row on disk until the ring reaches it."""


Full = Redeliver | Spill | Halt


def redeliver(delay: float = DELAY, limit: int = LIMIT) -> Redeliver:
    """Let an event beyond the ring come again after `delay` seconds, up to `limit` times.

    Nothing of it is held in memory. `delay * limit` is how long the view may be behind a gap and
    lose nothing to the dead topic: ten minutes.
    """
    call = f"redeliver(delay={delay!r}, limit={limit!r})"
    number = isinstance(delay, int | float) and not isinstance(delay, bool)
    if not number or not 0.001 <= delay <= 86_400:
        raise DeclarationError(
            f"{call}: delay must be a number of seconds, 0.001 at least and 86400 at most"
        )
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_ATTEMPTS:
        raise DeclarationError(f"{call}: limit must be an int from 1 to {MOST_ATTEMPTS}")
    return Redeliver(float(delay), limit)


def spill() -> Spill:
    """Keep what does not fit into the ring as rows on disk, in sequence."""
    return Spill()


def default_full(gap: Gap) -> Redeliver:
    """Redelivery that fits the gap policy: as `redeliver()`, quicker or longer where it has to."""
    if not isinstance(gap, Skip):
        return Redeliver()
    delay = min(DELAY, gap.least / DELAYS_IN_A_GAP)
    return Redeliver(delay, max(LIMIT, math.ceil(GAPS_IN_A_LIMIT * gap.most / delay)))


def check_full(view: str, full: Full, gap: Gap) -> None:
    """Whether redelivery and the gap policy go together. Raises DeclarationError."""
    if not isinstance(full, Redeliver) or not isinstance(gap, Skip):
        return
    if full.delay * DELAYS_IN_A_GAP > gap.least:
        raise DeclarationError(
            f"view {view!r}: redeliver(delay={full.delay:g}) with a gap that is skipped after "
            f"{gap.least:g} s would skip events that are only on their way back; make the delay "
            f"{gap.least / DELAYS_IN_A_GAP:g} s or less, skip later, or use spill()"
        )
    lasts = full.delay * full.limit
    if lasts < gap.most * GAPS_IN_A_LIMIT:
        raise DeclarationError(
            f"view {view!r}: redeliver(delay={full.delay:g}, limit={full.limit}) gives an event up "
            f"after {lasts:g} s, with gaps that may last {gap.most:g} s; make the limit "
            f"{math.ceil(gap.most * GAPS_IN_A_LIMIT / full.delay)} or more, or use spill()"
        )
