"""Routing by hash, without a store: a unit's name has one of 4,096 slots, a slot has a member."""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

from stores.units.errors import RouteMoving, UnitError
from stores.units.routing.route import Moving, Route
from topology.model.printable import printable

SLOTS = 4_096


def slot_of(unit: str) -> int:
    """The slot of a unit's name: the same on every machine and for ever.

    Args:
        unit: the name.
    """
    return int.from_bytes(blake2b(unit.encode(), digest_size=2).digest(), "big") % SLOTS


class SlotTable:
    """Which member has which slot; a slot moves only when its old member is drained of it.

    From its move's start on nobody gets the route of a slot. When the time is over for which
    producers may go by their copies, the old member is asked whether it has anything left of the
    slot; if not, the slot is the new member's.

    Args:
        members: the members' names, in an order that all agree on.
        hold: seconds for which a producer may go by its copy of the table without asking.

    Raises:
        UnitError: there is no member.
    """

    def __init__(self, members: Sequence[str], hold: float = 10.0) -> None:
        if not members:
            raise UnitError("a destination without members has no routes: give it one")
        self._members = [members[slot % len(members)] for slot in range(SLOTS)]
        self._epochs = [1] * SLOTS
        self._hold = hold
        self._moving: dict[int, Moving] = {}

    def route(self, unit: str) -> Route:
        """Where a unit lives.

        Args:
            unit: the name.

        Raises:
            RouteMoving: its slot moves.
        """
        slot = slot_of(unit)
        if slot in self._moving:
            raise RouteMoving(
                f"unit {printable(unit)} cannot be sent to now: its slot {slot} moves to"
                f" {printable(self._moving[slot].target)}; send again shortly"
            )
        return Route(self._members[slot], self._epochs[slot])

    def spread(self, members: Sequence[str], now: float) -> list[Moving]:
        """Begin to move the fewest slots so that members have equal shares.

        Args:
            members: those that are to have slots from now on.
            now: seconds of a clock that is never set back.

        Returns:
            The moves that begin; a slot that moves already goes on where it goes.

        Raises:
            UnitError: there is no member.
        """
        if not members:
            raise UnitError("a destination without members has no routes: give it one")
        goes = {slot: move.target for slot, move in self._moving.items()}
        held = [goes.get(slot, member) for slot, member in enumerate(self._members)]
        shares = Counter(held)
        # Who has most keeps the odd ones: that moves the fewest.
        by_share = sorted(dict.fromkeys(members), key=lambda each: -shares[each])
        least, odd = divmod(SLOTS, len(by_share))
        room = {each: least + (place < odd) for place, each in enumerate(by_share)}
        homeless = []
        for slot, member in enumerate(held):
            if room.get(member, 0) > 0:
                room[member] -= 1
            elif slot not in self._moving:
                homeless.append(slot)
        free = [each for each, slots in room.items() for _ in range(slots)]
        begun = []
        for slot, target in zip(homeless, free, strict=False):
            move = Moving(
                str(slot), self._members[slot], target, self._epochs[slot], now + self._hold
            )
            self._moving[slot] = move
            begun.append(move)
        return begun

    def fenced(self, now: float) -> list[Moving]:
        """Moves whose old route no producer uses any more: the old members are to be drained.

        Args:
            now: seconds of the clock that `spread` was given.
        """
        return [move for move in self._moving.values() if move.fenced_at <= now]

    def drained(self, slot: int, epoch: int, now: float) -> bool:
        """The old member has nothing of a slot, read to an end that was asked for when fenced.

        Args:
            slot: the slot.
            epoch: of its move, so that an old answer moves nothing.
            now: seconds of the clock that `spread` was given.

        Returns:
            Whether the slot is the new member's from now on.
        """
        move = self._moving.get(slot)
        if move is None or move.epoch != epoch or move.fenced_at > now:
            return False
        del self._moving[slot]
        self._members[slot], self._epochs[slot] = move.target, epoch + 1
        return True

    def shares(self) -> Counter[str]:
        """How many slots each member has."""
        return Counter(self._members)

    def entries(self) -> list[tuple[str, int]]:
        """The table to be stored, once a slot has moved: (member, epoch) of each slot."""
        return list(zip(self._members, self._epochs, strict=True))

    def restore(self, entries: Sequence[tuple[str, int]]) -> None:
        """Begin with a table that was stored; moves that were under way begin anew.

        Args:
            entries: as `entries` gave them.

        Raises:
            UnitError: these are not the entries of all slots.
        """
        if len(entries) != SLOTS:
            raise UnitError(f"a table has {SLOTS} slots, not {len(entries)}: restore a whole one")
        self._members = [member for member, _ in entries]
        self._epochs = [epoch for _, epoch in entries]
        self._moving = {}
