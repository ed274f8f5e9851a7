"""What can be told of a unit: who holds it, since when, what waits, what helps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """A unit, or an ungrouped message, as it is now.

    Attributes:
        unit: its name; an ungrouped message is named by its offset.
        state: ready, held, settling, delayed, uncommitted, parked, paused, unadmitted, dead, empty.
        session: who holds it.
        since: seconds since 1970 at which the state began; None if it is not kept.
        until: when the state ends by itself; None if it does not.
        held: offsets that the session holds, in order.
        waiting: messages that wait.
        head: the offset of the first that waits.
        redeliveries: of the head, or of the first that is held.
        reason: why it is parked, paused or dead.
        helps: what helps, as a sentence.
    """

    unit: str
    state: str
    session: str | None
    since: float | None
    until: float | None
    held: tuple[int, ...]
    waiting: int
    head: int | None
    redeliveries: int
    reason: str
    helps: str
