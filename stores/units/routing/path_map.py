"""Decisions of the path service: unit → member, chosen at first use, kept, deleted when unused."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from stores.units.errors import MemberUnavailable, RouteMoving, UnitError
from stores.units.routing.route import Moving, Route
from topology.model.printable import printable


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
        self._lease = lease
        self._loads = dict.fromkeys(members, 0.0)
        self._down: set[str] = set()
        self._entries: dict[str, PathEntry] = {}
        self._units: Counter[str] = Counter()
        self._unused: dict[str, None] = {}
        self._moving: dict[str, float] = {}
        self._producers: dict[str, tuple[float, set[str]]] = {}
        self._rows: dict[str, PathEntry | None] = {}
        self._epoch = 0

    def route(self, unit: str, producer: str, now: float) -> Route:
        """The place of a unit, chosen by load at first use; the producer has it from now on.

        Args:
            unit: the name.
            producer: its session, whose lease this renews.
            now: seconds.

        Raises:
            MemberUnavailable: its member is down, or no member is up for a new unit.
            RouteMoving: it moves to another member.
        """
        self.expire(now)
        entry = self._entries.get(unit)
        if entry is None:
            entry = PathEntry(self._least_loaded(unit), self._next_epoch())
        if entry.target is not None:
            raise RouteMoving(
                f"unit {printable(unit)} cannot be sent to now: it moves to"
                f" {printable(entry.target)}; send again shortly"
            )
        if entry.member in self._down:
            raise MemberUnavailable(
                f"unit {printable(unit)} lives on {printable(entry.member)}, which is down: sending"
                " it elsewhere would break its order; bring that member back, or remove it"
            )
        if producer not in entry.producers:
            new = self._next_epoch() if not entry.producers else entry.epoch
            given = tuple(sorted((*entry.producers, producer)))
            entry = replace(entry, epoch=new, producers=given)
            self._put(unit, entry)
        units = self._producers.get(producer, (now, set()))[1]
        units.add(unit)
        self._producers[producer] = (now + self._lease, units)
        return Route(entry.member, entry.epoch)

    def renew(self, producer: str, now: float) -> bool:
        """Renew a producer's lease. It then drops the routes of which `dropped_by` tells.

        Args:
            producer: its session.
            now: seconds.

        Returns:
            False if the lease was over: it has no route any more, and asks for each anew.
        """
        self.expire(now)
        held = self._producers.get(producer)
        if held is not None:
            self._producers[producer] = (now + self._lease, held[1])
        return held is not None

    def dropped_by(self, producer: str) -> list[str]:
        """Units that move, and whose old route a producer has not given back yet.

        Args:
            producer: its session.
        """
        return [unit for unit in self._moving if producer in self._entries[unit].producers]

    def leave(self, unit: str, producer: str) -> None:
        """A producer leaves a unit, or drops its route because the unit moves.

        Args:
            unit: the name.
            producer: its session.
        """
        entry = self._entries.get(unit)
        if entry is not None and producer in entry.producers:
            left = tuple(each for each in entry.producers if each != producer)
            self._put(unit, replace(entry, producers=left))
        if producer in self._producers:
            self._producers[producer][1].discard(unit)

    def close(self, producer: str) -> None:
        """A producer is closed: it leaves all its units.

        Args:
            producer: its session.
        """
        for unit in list(self._producers.get(producer, (0.0, set()))[1]):
            self.leave(unit, producer)
        self._producers.pop(producer, None)

    def expire(self, now: float) -> None:
        """End the leases that are over.

        Args:
            now: seconds.
        """
        for producer in [each for each, (end, _) in self._producers.items() if end <= now]:
            self.close(producer)

    def unused(self) -> list[tuple[str, Route]]:
        """Units without producers: their members are to be asked whether anything is left.

        The answer counts if the member read to an end of its log that was asked for after this.
        """
        entries = ((unit, self._entries[unit]) for unit in self._unused)
        return [(unit, Route(entry.member, entry.epoch)) for unit, entry in entries]

    def emptied(self, unit: str, epoch: int) -> bool:
        """A member has nothing of an unused unit: its name may go elsewhere from now on.

        Args:
            unit: the name.
            epoch: of the route that `unused` gave, so that one used anew meanwhile is kept.

        Returns:
            Whether the entry was deleted.
        """
        entry = self._entries.get(unit)
        if entry is None or unit not in self._unused or entry.epoch != epoch:
            return False
        self._put(unit, None)
        return True

    def move(self, unit: str, target: str, now: float) -> Moving:
        """Begin to move a unit: nobody gets its route until its old member is drained of it.

        Args:
            unit: the name.
            target: the member that is to have it.
            now: seconds.

        Raises:
            UnitError: it has no entry, moves already, or is there.
            MemberUnavailable: the target is down or no member.
        """
        entry = self._entries.get(unit)
        if entry is None or entry.target is not None or entry.member == target:
            raise UnitError(
                f"unit {printable(unit)} cannot move to {printable(target)}: it has no path, is"
                " there, or moves already; look at its path"
            )
        if target not in self._loads or target in self._down:
            raise MemberUnavailable(
                f"unit {printable(unit)} cannot move to {printable(target)}, which is down or no"
                " member: choose another"
            )
        self._moving[unit] = now + self._lease
        self._put(unit, replace(entry, target=target))
        return self._move_of(unit)

    def fenced(self, now: float) -> list[Moving]:
        """Moves whose old route no producer has any more: the old members are to be drained.

        Args:
            now: seconds.
        """
        self.expire(now)
        return [
            self._move_of(unit)
            for unit, until in self._moving.items()
            if until <= now or not self._entries[unit].producers
        ]

    def drained(self, unit: str, epoch: int, now: float) -> bool:
        """The old member has nothing of a unit, read to an end that was asked for when fenced.

        Args:
            unit: the name.
            epoch: of its move, so that an old answer moves nothing.
            now: seconds.

        Returns:
            Whether the unit lives on the new member from now on.
        """
        if not any(each.what == unit and each.epoch == epoch for each in self.fenced(now)):
            return False
        entry = self._entries[unit]
        for producer in entry.producers:
            self._producers[producer][1].discard(unit)
        del self._moving[unit]
        self._put(unit, PathEntry(entry.target or entry.member, self._next_epoch()))
        return True

    def add_member(self, member: str) -> None:
        """A member may get units from now on; those that have a path stay where they are.

        Args:
            member: its name.
        """
        self._loads.setdefault(member, 0.0)

    def remove_member(self, member: str) -> list[str]:
        """A member is gone for good, with what it has: its units' entries go.

        Args:
            member: its name.

        Returns:
            The names of these units, which may go elsewhere from now on.
        """
        self._loads.pop(member, None)
        self._down.discard(member)
        gone = [unit for unit, entry in self._entries.items() if entry.member == member]
        for unit in gone:
            for producer in self._entries[unit].producers:
                self.leave(unit, producer)
            self._moving.pop(unit, None)
            self._put(unit, None)
        for unit, entry in list(self._entries.items()):
            if entry.target == member:  # the move ends where it began
                del self._moving[unit]
                self._put(unit, replace(entry, target=None))
        return gone

    def set_reachable(self, member: str, reachable: bool) -> None:
        """A member is down, or up again; its units stay where they are.

        Args:
            member: its name.
            reachable: whether it can be sent to.
        """
        (self._down.discard if reachable else self._down.add)(member)

    def set_load(self, member: str, load: float) -> None:
        """How loaded a member is; a new unit goes to the least loaded.

        Args:
            member: its name.
            load: any measure that is the same for all members; a unit adds 1 to it.
        """
        if member in self._loads:
            self._loads[member] = load

    def entries(self) -> Mapping[str, PathEntry]:
        """All units that have a path."""
        return self._entries

    def take_rows(self) -> dict[str, PathEntry | None]:
        """What to write since it was last taken: unit → its entry, None deletes it."""
        rows, self._rows = self._rows, {}
        return rows

    @property
    def epoch(self) -> int:
        """The highest epoch so far: to be stored, so that it never comes again."""
        return self._epoch

    def restore(self, rows: Mapping[str, PathEntry], now: float, epoch: int = 0) -> None:
        """Begin with the entries that are stored; their producers have a whole lease from now.

        Entries of members that are no longer among the members go.

        Args:
            rows: unit → its entry.
            now: seconds.
            epoch: the highest one so far.
        """
        self._epoch = max(self._epoch, epoch)
        for unit, entry in rows.items():
            self._put(unit, entry)
            self._epoch = max(self._epoch, entry.epoch)
            if entry.target is not None:
                self._moving[unit] = now + self._lease
            for producer in entry.producers:
                units = self._producers.get(producer, (now, set()))[1]
                units.add(unit)
                self._producers[producer] = (now + self._lease, units)
        self._rows = {}
        for member in {entry.member for entry in rows.values()} - set(self._loads):
            self.remove_member(member)

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def _move_of(self, unit: str) -> Moving:
        entry = self._entries[unit]
        return Moving(unit, entry.member, entry.target or "", entry.epoch, self._moving[unit])

    def _least_loaded(self, unit: str) -> str:
        up = [each for each in self._loads if each not in self._down]
        if not up:
            raise MemberUnavailable(
                f"unit {printable(unit)} has no path yet, and no member is up: bring one up"
            )
        return min(up, key=lambda each: (self._loads[each] + self._units[each], each))

    def _put(self, unit: str, entry: PathEntry | None) -> None:
        """Change an entry, with what is counted by it and what is to be written."""
        if old := self._entries.pop(unit, None):
            self._units[old.member] -= 1
        self._unused.pop(unit, None)
        if entry is not None:
            self._entries[unit] = entry
            self._units[entry.member] += 1
            if not entry.producers and entry.target is None:
                self._unused[unit] = None
        self._rows[unit] = entry
