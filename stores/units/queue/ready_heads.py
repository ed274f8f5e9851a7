"""The heads that may be delivered: by sort key, within a look-ahead, for each filter."""

from heapq import heapify, heappop, heappush

from stores.units.errors import UnitError
from stores.units.queue.message import EVERY, Filter
from stores.units.queue.unit import Unit

MOST_FILTERS = 64
"""Different filters of open sessions at a time."""
_SLACK = 64
"""Entries that are out of date and stay, beyond as many as there are heads."""


class _Lane:
    """The heads that one filter admits.

    arrival: offsets of all. sorted: (sort, offset) of those within the look-ahead. beyond: offsets
    of the others. Entries that are out of date are dropped when they come to the top.
    """

    def __init__(self) -> None:
        self.sessions = 0
        self.admitted_to = -1
        self.arrival: list[int] = []
        self.sorted: list[tuple[float, int]] = []
        self.beyond: list[int] = []

    def push(self, sort: float, offset: int) -> None:
        heappush(self.arrival, offset)
        if offset <= self.admitted_to:
            heappush(self.sorted, (sort, offset))
        else:
            heappush(self.beyond, offset)

    def first(self, heads: dict[int, Unit], look_ahead: int) -> tuple[float, int] | None:
        """(sort, offset) of the head that goes first; None if there is none."""
        arrival = self.arrival
        while arrival and not _is_free(heads, arrival[0]):
            heappop(arrival)
        if not arrival:
            return None
        # What was once within the look-ahead stays there, also when an older head returns.
        self.admitted_to = max(self.admitted_to, arrival[0] + look_ahead)
        while self.beyond and self.beyond[0] <= self.admitted_to:
            offset = heappop(self.beyond)
            if _is_free(heads, offset):
                heappush(self.sorted, (heads[offset].waiting[0].sort, offset))
        while not _is_free(heads, self.sorted[0][1]):
            heappop(self.sorted)
        return self.sorted[0]

    def shrink(self, heads: dict[int, Unit]) -> None:
        """Drop what is out of date, if it is the greater part."""
        most = 2 * len(heads) + _SLACK
        if len(self.arrival) > most:
            self.arrival = sorted({o for o in self.arrival if _is_free(heads, o)})
        if len(self.beyond) > most:
            self.beyond = sorted({o for o in self.beyond if _is_free(heads, o)})
        if len(self.sorted) > most:
            self.sorted = sorted({pair for pair in self.sorted if _is_free(heads, pair[1])})


def _is_free(heads: dict[int, Unit], offset: int) -> bool:
    unit = heads.get(offset)
    return unit is not None and unit.session is None


class ReadyHeads:
    """The units whose head may be delivered now, by the head's offset.

    Args:
        look_ahead: offsets by which a head may be ahead of the oldest that it overtakes.
    """

    def __init__(self, look_ahead: int) -> None:
        self._look_ahead = look_ahead
        self._heads: dict[int, Unit] = {}
        self._lanes: dict[Filter, _Lane] = {EVERY: _Lane()}
        self._sessions = 0
        self.unadmitted: set[int] = set()
        """Heads that no open session's filter admits, while there are sessions."""

    @property
    def any(self) -> bool:
        """Whether there is one, for whomever."""
        return bool(self._heads)

    def add(self, unit: Unit) -> None:
        """The head of a unit that no session holds may be delivered."""
        head = unit.waiting[0]
        unit.ready = offset = head.offset
        self._heads[offset] = unit
        admitted = False
        for chosen, lane in self._lanes.items():
            if chosen is EVERY or chosen.admits(head):
                lane.push(head.sort, offset)
                lane.shrink(self._heads)
                admitted = admitted or lane.sessions > 0
        if self._sessions and not admitted:
            self.unadmitted.add(offset)

    def add_owned(self, unit: Unit) -> None:
        """The head of a unit may be delivered to the session that has the unit already."""
        unit.ready = offset = unit.waiting[0].offset
        self._heads[offset] = unit

    def remove(self, unit: Unit) -> None:
        """The head of a unit may not be delivered."""
        if unit.ready >= 0:
            self._heads.pop(unit.ready, None)
            self.unadmitted.discard(unit.ready)
            unit.ready = -1

    def unadmitted_units(self) -> list[Unit]:
        """The units of the heads that no open session's filter admits."""
        return [self._heads[offset] for offset in self.unadmitted]

    def open_lane(self, chosen: Filter) -> None:
        """A session with this filter opens. Raises UnitError: there are too many filters."""
        lane = self._lanes.get(chosen)
        if lane is None:
            if len(self._lanes) > MOST_FILTERS:
                raise UnitError(
                    f"there are {MOST_FILTERS} different filters already: give sessions the same"
                    " filters, or close some"
                )
            lane = self._lanes[chosen] = _Lane()
            lane.beyond = [
                offset
                for offset, unit in self._heads.items()
                if unit.session is None and chosen.admits(unit.waiting[0])
            ]
            heapify(lane.beyond)
            lane.arrival = lane.beyond.copy()
        lane.sessions += 1
        self._sessions += 1
        if lane.sessions == 1:
            self._find_unadmitted()

    def close_lane(self, chosen: Filter) -> None:
        """A session with this filter closes."""
        lane = self._lanes[chosen]
        lane.sessions -= 1
        self._sessions -= 1
        if not lane.sessions:
            if chosen != EVERY:
                del self._lanes[chosen]
            self._find_unadmitted()

    def _find_unadmitted(self) -> None:
        used = [chosen for chosen, lane in self._lanes.items() if lane.sessions]
        self.unadmitted = {
            offset
            for offset, unit in (self._heads.items() if used else ())
            if unit.session is None and not any(each.admits(unit.waiting[0]) for each in used)
        }

    def first(self, chosen: Filter, owned: list[tuple[float, int]], session: str) -> Unit | None:
        """The unit whose head goes to a session next.

        Args:
            chosen: the session's filter.
            owned: (sort, offset), a heap, of heads that only this session may get.
            session: its name.
        """
        heads, lane = self._heads, self._lanes[chosen]
        free = lane.first(heads, self._look_ahead)
        while owned:
            unit = heads.get(owned[0][1])
            if unit is not None and unit.session == session:
                own = owned[0]
                if free is None or (own < free and own[1] <= lane.admitted_to):
                    return unit
                break
            heappop(owned)
        return heads[free[1]] if free else None
