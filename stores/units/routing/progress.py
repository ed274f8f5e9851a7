"""What a destination's subscribers have left: whether an unused unit's last message is gone."""

from typing import Any


class SubscriberProgress:
    """How far each subscriber is on each member, as the owners' rows tell."""

    def __init__(self) -> None:
        self._positions: dict[tuple[str, int], int] = {}
        self._groups: dict[str, set[tuple[int, str]]] = {}
        """Subscriber → its rows by which it is known."""
        self._marked: set[tuple[str, int, str]] = set()
        self._parked: dict[tuple[str, int, int], str] = {}

    def take(self, group: str, member: int, subject: tuple[str | int, ...], value: Any) -> None:
        """A row that an owner wrote.

        Args:
            group: the subscriber.
            member: the partition.
            subject: of the row.
            value: as JSON has it; None deletes the row.
        """
        match subject, value:
            case ("owner" | "position" as kind,), None | {"forgotten": True}:
                self._positions.pop((group, member), None)
                self._groups.get(group, set()).discard((member, kind))
                if not self._groups.get(group):
                    self._groups.pop(group, None)
                return
            case ("owner" | "position" as kind,), _:
                self._groups.setdefault(group, set()).add((member, kind))
        match subject, value:
            case ("position",), {"position": int(position)}:
                self._positions[group, member] = position
            case ("unit", str(unit)), None:
                self._marked.discard((group, member, unit))
            case ("unit", str(unit)), _:
                self._marked.add((group, member, unit))
            case ("message", int(offset)), {"unit": str(unit)}:
                self._parked[group, member, offset] = unit
            case ("message", int(offset)), None:
                self._parked.pop((group, member, offset), None)

    def passed(self, member: int, offset: int) -> bool:
        """Whether every subscriber has completed, or parked, all of a member up to an offset.

        Args:
            member: the partition.
            offset: of a record there.

        Returns:
            False too while no subscriber is known: the first one reads from the beginning.
        """
        places = (self._positions.get((group, member), -1) for group in self._groups)
        return bool(self._groups) and min(places) > offset

    def kept(self) -> set[str]:
        """Units of which a subscriber has parked something, or something else on record."""
        return {unit for _, _, unit in self._marked} | set(self._parked.values())

    def backlog(self, member: int, end: int) -> int:
        """How many messages the slowest subscriber of a member has left.

        Args:
            member: the partition.
            end: the offset behind its last record.
        """
        places = [self._positions.get((group, member), end) for group in self._groups]
        return max(0, end - min(places, default=end))
