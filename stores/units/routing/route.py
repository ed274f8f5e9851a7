"""A route: the member on which a unit lives."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Route:
    """Where a unit's messages go.

    Attributes:
        member: the name of the member, a partition or a topic.
        epoch: counts up when the unit moves.
    """

    member: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Moving:
    """A move that is under way: nobody gets the route until the old member is drained.

    Attributes:
        what: the unit.
        source: the old member.
        target: the new one.
        epoch: of the old route; who says that the old member is drained gives it.
        fenced_at: by when every producer has dropped the old route, in seconds of the caller's
            clock.
    """

    what: str
    source: str
    target: str
    epoch: int
    fenced_at: float
