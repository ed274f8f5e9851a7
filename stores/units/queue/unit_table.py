"""The units of a member: what joins them, what may go, what is parked. The base of the queue."""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from heapq import heapify, heappop, heappush

from stores.units.queue.changes import UnitMark
from stores.units.queue.handover import Handover, MovedAway
from stores.units.queue.ledger import Ledger
from stores.units.queue.message import Outcome, UnitMessage
from stores.units.queue.ready_heads import ReadyHeads
from stores.units.queue.session import Session
from stores.units.queue.settings import QueueSettings
from stores.units.queue.unit import Unit, UnitKey

WHOLE = ""
"""The key of the mark that says that the whole member is paused: no unit bears it."""
_SLACK = 64
"""Timers that are out of date and stay, beyond two for each unit."""


class UnitTable:
    """Units by name, which of their heads may go, and the timers of those that may not yet.

    Args:
        settings: the rules.
    """

    def __init__(self, settings: QueueSettings) -> None:
        self._settings = settings
        self._ledger = Ledger(settings.records)
        self._ready = ReadyHeads(settings.look_ahead)
        self._units: dict[UnitKey, Unit] = {}
        self._sessions: dict[str, Session] = {}
        self._uncommitted: dict[int, UnitKey] = {}
        self._timers: list[tuple[float, int, UnitKey]] = []
        self._settling: deque[tuple[int, Unit]] = deque()
        self._paused: UnitMark | None = None
        self._former: set[str] = set()
        self._moved: dict[str | None, MovedAway] = {}
        self._now = 0.0

    def arrive(self, message: UnitMessage, now: float, epoch: int = 0) -> None:
        """Take a message in; one that is complete, or was taken in before, is passed by.

        Args:
            message: messages arrive by ascending offsets.
            now: seconds since 1970.
            epoch: of the route by which it was sent, 0 for none.
        """
        self.expire(now)
        now = self._now
        if not self._ledger.arrived(message) or (
            message.unit in self._moved and self._is_late(message, epoch)
        ):
            return
        if message.not_before > now + self._settings.longest_wait:
            message = replace(message, not_before=now + self._settings.longest_wait)
        key = message.offset if message.unit is None else message.unit
        unit = self._units.get(key)
        if unit is None:
            unit = self._units[key] = Unit(key, now)
        elif not unit.waiting and self._was_dead(unit, now):
            self._end_death(unit)  # with former sessions, no timer has done it
        unit.append(message)
        if not message.committed:
            self._uncommitted[message.offset] = key
        if message.handover is not None and message.handover.kind == "leaves":
            self._leaves(unit, message, message.handover)
        mark = unit.mark
        if mark and mark.parked is not None:
            self._keep(unit, [message], now)
        elif (mark and mark.dead is not None) or len(unit.waiting) == 1:
            self._refresh(unit, now)

    def handed(self, unit: str, epoch: int, offset: int, now: float) -> None:
        """The member that a unit comes from has nothing left of it: what waited for that goes on.

        Args:
            unit: its name.
            epoch: of its move.
            offset: of the record that says so.
            now: seconds since 1970.
        """
        self.expire(now)
        record = UnitMessage(offset, unit)
        if not self._ledger.arrived(record):
            return
        self._ledger.finish(record, Outcome.HANDED)
        self._go_on(unit, epoch)

    def handed_ahead(self, unit: str, epoch: int, now: float) -> None:
        """Such a record lies ahead: what waits for it goes on. It arrives later, to no effect.

        Args:
            unit: its name.
            epoch: of its move.
            now: seconds since 1970.
        """
        self.expire(now)
        self._go_on(unit, epoch)

    def _go_on(self, unit: str, epoch: int) -> None:
        """What waits for a unit's move goes on."""
        if (found := self._units.get(unit)) is None:
            return
        for message in list(found.waiting):
            if message.handover is not None and message.handover.epoch == epoch:
                found.waiting.remove(message)
                self._ledger.finish(message, Outcome.HANDED)
        self._refresh(found, self._now)

    def nothing_below(self, offset: int) -> None:
        """The log was read up to before an offset, and what did not arrive is no message.

        Args:
            offset: the end of what was read.
        """
        self._ledger.nothing_below(offset)

    def log_begins(self, offset: int) -> None:
        """Retention has deleted what is below an offset: that units left there is of no use more.

        Who would send by a route of that time has had no lease for as long as the topic keeps.

        Args:
            offset: the first one that the log still has.
        """
        gone = [
            unit
            for unit, left in self._moved.items()
            if left.offset < offset and unit not in self._units
        ]
        for unit in gone:
            del self._moved[unit]
            self._ledger.moved(str(unit), None)

    @property
    def moved(self) -> int:
        """How many units have left whose late messages are refused."""
        return len(self._moved)

    @property
    def arriving(self) -> bool:
        """Whether a unit waits for the member that it comes from. It looks at all units."""
        heads = (unit.waiting[0] for unit in self._units.values() if unit.waiting)
        return any(each.handover and each.handover.kind == "arrives" for each in heads)

    def commit_send(self, offset: int, now: float) -> None:
        """The send of a message that arrived uncommitted is committed.

        Args:
            offset: the message.
            now: seconds since 1970.
        """
        key = self._uncommitted.pop(offset, None)
        if key is None:
            return
        unit = self._units[key]
        at = next(i for i, each in enumerate(unit.waiting) if each.offset == offset)
        message = unit.waiting[at] = replace(unit.waiting[at], committed=True)
        if _is_parked(unit.mark):
            self._keep(unit, [message], self._at(now))
        else:
            self._refresh(unit, self._at(now))

    def abort_send(self, offset: int, now: float) -> None:
        """The send of a message that arrived uncommitted is aborted: the message is gone.

        Args:
            offset: the message.
            now: seconds since 1970.
        """
        key = self._uncommitted.pop(offset, None)
        if key is None:
            return
        unit = self._units[key]
        message = next(each for each in unit.waiting if each.offset == offset)
        unit.waiting.remove(message)
        self._ledger.finish(message, Outcome.ABORTED)
        self._refresh(unit, self._at(now))

    def expire(self, now: float) -> None:
        """Let time pass: delays end, messages at the head of their unit expire.

        Args:
            now: seconds since 1970.
        """
        now = self._at(now)
        while self._timers and self._timers[0][0] <= now:
            unit = self._units.get(heappop(self._timers)[2])
            if unit is not None:
                self._refresh(unit, now)

    @property
    def due(self) -> float | None:
        """When `expire` may have something to do next, in seconds since 1970; None for never."""
        return self._timers[0][0] if self._timers else None

    def _at(self, now: float) -> float:
        """The time, which never goes back."""
        if now > self._now:
            self._now = now
        return self._now

    def _refresh(self, unit: Unit, now: float) -> None:
        """Find out anew whether the head of a unit may be delivered, and to whom.

        While a session of the former owner may hold anything, nothing goes, expires or departs.
        """
        if self._former:
            return
        self._ready.remove(unit)
        mark = unit.mark
        if mark is not None and mark.dead is not None:
            mark = self._bury(unit, mark.dead, now)
        while unit.waiting and _is_over(unit.waiting[0], now) and not _is_parked(mark):
            self._depart_head(unit, Outcome.EXPIRED, "its time to live is over")
        if not unit.waiting:
            if unit.mark and unit.held is None and unit.key.__class__ is int:
                self._set_mark(unit, UnitMark())
            if unit.is_over:
                self._units.pop(unit.key, None)
            return
        # Its session may go on: it tells a new owner what it completed. Nobody else could.
        if mark is not None or unit.departed or (unit.session is None and unit.unsettled):
            return
        head = unit.waiting[0]
        if head.handover is not None:
            if head.handover.kind == "leaves" and unit.session is None:
                self._depart_head(unit, Outcome.HANDED, "")
            return
        opens = max(unit.open_at, head.not_before)
        if opens > now:
            self._time(opens, head.offset, unit)
        elif head.committed:
            if unit.session is None:
                self._ready.add(unit)
            else:
                self._offer(unit, head)
        if head.expires is not None and head.expires > now:
            self._time(head.expires, head.offset, unit)

    def _offer(self, unit: Unit, head: UnitMessage) -> None:
        """The head of a unit may go to the session that has the unit, if it takes such ones."""
        session = self._sessions[unit.session or ""]
        if session.filter.admits(head):
            self._ready.add_owned(unit)
            heappush(session.owned, (head.sort, head.offset))
            if len(session.owned) > 2 * len(session.units) + _SLACK:
                heads = [unit.waiting[0] for unit in session.units.values() if unit.ready >= 0]
                session.owned = sorted((each.sort, each.offset) for each in heads)

    def _time(self, at: float, offset: int, unit: Unit) -> None:
        heappush(self._timers, (at, offset, unit.key))
        if len(self._timers) > 4 * len(self._units) + _SLACK:
            self._timers = [entry for entry in set(self._timers) if self._is_timed(entry)]
            heapify(self._timers)

    def _is_timed(self, entry: tuple[float, int, UnitKey]) -> bool:
        unit = self._units.get(entry[2])
        if unit is None:
            return False
        return entry[1] < 0 or bool(unit.waiting and unit.waiting[0].offset == entry[1])

    def _unsettle(self, unit: Unit) -> None:
        """A message of a unit is complete, which is not durable yet."""
        if unit.unsettled != self._ledger.batch and unit.key.__class__ is str:
            unit.unsettled = self._ledger.batch
            self._settling.append((unit.unsettled, unit))

    def _leaves(self, unit: Unit, message: UnitMessage, handover: Handover) -> None:
        """A unit leaves: what is sent here from now on is late, unless it comes back."""
        known = self._moved.get(str(unit.key))
        if known is None or known.offset < message.offset:  # else it is read again
            left = MovedAway(message.offset, handover.epoch, handover.other)
            self._moved[str(unit.key)] = left
            self._ledger.moved(str(unit.key), left)

    def _is_late(self, message: UnitMessage, epoch: int) -> bool:
        """Whether a message came after its unit had left: it is refused, as all readers see it."""
        unit = message.unit or ""
        left = self._moved[unit]
        if message.offset <= left.offset:
            return False
        epoch = message.handover.epoch if message.handover else epoch
        if epoch > left.epoch and not left.back:
            left = self._moved[unit] = replace(left, back=True)
            self._ledger.moved(unit, left)
        if epoch > left.epoch or (left.back and not epoch):
            return False
        why = f"it was sent here after its unit had moved to member {left.to}"
        self._ledger.depart(message, Outcome.REFUSED, why=why)
        return True

    def _depart_head(self, unit: Unit, outcome: Outcome, why: str) -> None:
        message = unit.waiting[0]
        del unit.waiting[0]
        if message.handover is None or message.handover.kind == "leaves":
            self._ledger.depart(message, Outcome.HANDED if message.handover else outcome, why=why)
        else:  # what it waits for has nothing to follow any more
            self._ledger.finish(message, Outcome.HANDED)
        self._unsettle(unit)
        unit.departed = unit.unsettled

    def _set_mark(self, unit: Unit, mark: UnitMark) -> None:
        unit.mark = None if mark == UnitMark(reason=mark.reason) else mark
        self._ledger.mark(unit.key, unit.mark)

    def _poison(self, unit: Unit, now: float, why: str) -> None:
        """The head of a unit failed to its limit."""
        if self._settings.poisoned == "park":
            self._park(unit, now, why)
        else:
            self._dead_letter(unit, now, why)

    def _park(self, unit: Unit, now: float, why: str) -> None:
        """Set a unit aside, with what follows into it."""
        self._ledger.counts[Outcome.PARKED] += 1
        self._set_mark(unit, replace(unit.mark or UnitMark(), parked=now, reason=why))
        unit.since = now
        self._keep(unit, unit.waiting, now)

    def _keep(self, unit: Unit, messages: Iterable[UnitMessage], now: float) -> None:
        """Store what is parked; beyond the limit the unit is dead-lettered."""
        for message in messages:
            if message.committed:
                self._ledger.store(message)
        ledger, settings = self._ledger, self._settings
        many = len(ledger.stored) > settings.parked_messages
        if many or ledger.stored_size > settings.parked_size:
            most = (
                f"{settings.parked_messages} messages" if many else f"{settings.parked_size} bytes"
            )
            why = f"more than {most} are parked"
            self._dead_letter(unit, now, why)
        else:
            self._refresh(unit, now)

    def _dead_letter(self, unit: Unit, now: float, why: str) -> None:
        """Send a unit away whole; what follows soon shares its fate."""
        self._set_mark(unit, replace(unit.mark or UnitMark(), parked=None, dead=now, reason=why))
        unit.since = now
        self._refresh(unit, now)

    def _end_death(self, unit: Unit) -> None:
        """What follows into a dead unit is delivered again, unless it is paused."""
        mark = unit.mark or UnitMark()
        self._set_mark(unit, replace(mark, dead=None, reason=mark.reason if mark.paused else ""))

    def _was_dead(self, unit: Unit, now: float) -> bool:
        """Whether a unit bears the mark of a dead one whose time is over."""
        dead = unit.mark.dead if unit.mark else None
        return dead is not None and now >= dead + self._settings.dead_for

    def _bury(self, unit: Unit, since: float, now: float) -> UnitMark | None:
        """Send away what is in a dead unit; returns its mark, None once that is over."""
        why = unit.mark.reason if unit.mark else ""
        while unit.waiting and unit.waiting[0].committed:
            self._depart_head(unit, Outcome.DEAD, why)
        ends = since + self._settings.dead_for
        if now < ends and unit.key.__class__ is str:
            self._time(ends, -1, unit)
        elif not unit.waiting:
            self._end_death(unit)
        return unit.mark


def _is_over(message: UnitMessage, now: float) -> bool:
    return message.expires is not None and message.expires <= now and message.committed


def _is_parked(mark: UnitMark | None) -> bool:
    return mark is not None and mark.parked is not None
