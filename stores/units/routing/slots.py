"""Routing by hash, without a store: a unit's name has one of 4,096 slots, a slot has a member."""

from collections.abc import Sequence

from stores.units.routing.route import Moving, Route

SLOTS = 4_096


def slot_of(unit: str) -> int:
    """The slot of a unit's name: the same on every machine and for ever.

    Args:
        unit: the name.
    """
    raise NotImplementedError


class SlotTable:
    """Which member has which slot; a slot moves only when its old member is drained of it.

    Args:
        members: the members' names, in an order that all agree on.
        hold: seconds for which a producer may go by its copy of the table without asking.
    """

    def __init__(self, members: Sequence[str], hold: float = 10.0) -> None:
        raise NotImplementedError

    def route(self, unit: str) -> Route:
        """Where a unit lives. Raises RouteMoving while its slot moves."""
        raise NotImplementedError

    def spread(self, members: Sequence[str], now: float) -> list[Moving]:
        """Begin to move the fewest slots so that the members have equal shares."""
        raise NotImplementedError

    def fenced(self, now: float) -> list[Moving]:
        """Moves whose old routes no producer uses any more: the old members are to be drained."""
        raise NotImplementedError

    def drained(self, slot: int, epoch: int) -> bool:
        """The old member has nothing of a slot, read to an end that was asked for when fenced."""
        raise NotImplementedError
