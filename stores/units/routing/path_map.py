"""Decisions of the path service: unit → member, chosen at first use, kept, deleted when unused."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stores.units.routing.route import Moving, Route


@dataclass(frozen=True, slots=True)
class PathEntry:
    """A unit's place, as it is stored.

    Attributes:
        member: where it lives.
        epoch: counts up with each move and each use anew.
        producers: the sessions that have the route, ascending.
        target: where it moves to, if it moves.
    """

    member: str
    epoch: int
    producers: tuple[str, ...] = ()
    target: str | None = None


class PathMap:
    """The paths of one destination, or of a cluster's (whose units are named with it).

    `now` is in seconds of a clock that is never set back. A producer counts its lease from before
    it asked, and stops using its routes when it is over.

    Args:
        members: members that may get units.
        lease: seconds for which a producer's routes hold without being renewed.
    """

    def __init__(self, members: Iterable[str], lease: float = 10.0) -> None:
        raise NotImplementedError

    def route(self, unit: str, producer: str, now: float) -> Route:
        """The place of a unit, chosen by load at first use; the producer has it from now on.

        Raises MemberUnavailable if its member is down, RouteMoving if it moves.
        """
        raise NotImplementedError

    def renew(self, producer: str, now: float) -> bool:
        """Renew a producer's lease; False if it was over, and it has no route any more."""
        raise NotImplementedError

    def leave(self, unit: str, producer: str) -> None:
        """A producer leaves a unit, or drops its route because the unit moves."""
        raise NotImplementedError

    def close(self, producer: str) -> None:
        """A producer is closed."""
        raise NotImplementedError

    def expire(self, now: float) -> None:
        """End the leases that are over."""
        raise NotImplementedError

    def unused(self) -> list[tuple[str, Route]]:
        """Units without producers: their members are to be asked whether anything is left."""
        raise NotImplementedError

    def emptied(self, unit: str, epoch: int) -> bool:
        """A member has nothing of an unused unit: forget it, unless it is used anew meanwhile."""
        raise NotImplementedError

    def move(self, unit: str, target: str, now: float) -> Moving:
        """Begin to move a unit. Raises UnitError, MemberUnavailable."""
        raise NotImplementedError

    def fenced(self, now: float) -> list[Moving]:
        """Moves whose old route no producer has any more: the old members are to be drained."""
        raise NotImplementedError

    def drained(self, unit: str, epoch: int) -> bool:
        """The old member has nothing of a unit, read to an end that was asked for when fenced."""
        raise NotImplementedError

    def admit(self, unit: str, member: str) -> None:
        """Raises UnitElsewhere if a message came straight to a member that has not the unit."""
        raise NotImplementedError

    def add_member(self, member: str) -> None:
        """A member may get units from now on."""
        raise NotImplementedError

    def remove_member(self, member: str) -> list[str]:
        """A member is gone for good: its units' entries go; returns their names."""
        raise NotImplementedError

    def set_reachable(self, member: str, reachable: bool) -> None:
        """A member is down, or up again; its units stay where they are."""
        raise NotImplementedError

    def set_load(self, member: str, load: float) -> None:
        """How loaded a member is; units are added to the least loaded."""
        raise NotImplementedError

    def take_rows(self) -> dict[str, PathEntry | None]:
        """What to write since it was last taken: unit → its entry, None deletes it."""
        raise NotImplementedError

    def restore(self, rows: Mapping[str, PathEntry], now: float) -> None:
        """Begin with the entries that are stored; their producers have a whole lease from now."""
        raise NotImplementedError
