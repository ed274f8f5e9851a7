"""What administration does to units and messages: each is recorded, with who did it."""

from collections.abc import Iterable
from dataclasses import replace

from stores.units.errors import UnitError, UnitHeld
from stores.units.queue.changes import AdministrationRecord, UnitMark
from stores.units.queue.message import Outcome, UnitMessage
from stores.units.queue.unit import Unit, UnitKey
from stores.units.queue.unit_table import WHOLE, UnitTable
from topology.model.printable import printable


class Administration(UnitTable):
    """Parking, redriving, pausing, moving, deleting. See `UnitQueue`."""

    def park(self, unit: UnitKey, now: float, by: str, reason: str = "") -> None:
        """Park a unit with all that follows into it.

        Args:
            unit: its name, or the offset of an ungrouped message.
            now: seconds since 1970.
            by: who asks for it.
            reason: why.

        Raises:
            UnitHeld: a session holds messages of it.
            UnitError: it has no messages.
        """
        found = self._found(unit)
        self._not_held(found)
        self._record("park", unit, (), now, by, reason)
        self._park(found, self._now, reason or f"parked by {by}")

    def redrive(self, unit: UnitKey, now: float, by: str, reason: str = "") -> int:
        """Deliver a parked unit again, in order; a dead one takes messages again.

        Args:
            unit: its name, or the offset of an ungrouped message.
            now: seconds since 1970.
            by: who asks for it.
            reason: why.

        Returns:
            How many messages it has.

        Raises:
            UnitError: it is neither parked nor dead.
        """
        found = self._found(unit)
        mark = found.mark
        if mark is None or (mark.parked is None and mark.dead is None):
            raise UnitError(
                f"unit {printable(unit)} is neither parked nor dead: nothing to redrive"
            )
        self._record("redrive", unit, (), now, by, reason)
        for message in found.waiting:
            self._ledger.forgive(message.offset)
        waiting = len(found.waiting)
        found.open_at, found.since = 0.0, self._now
        self._set_mark(found, replace(mark, parked=None, dead=None))
        self._refresh(found, self._now)
        return waiting

    def pause(self, unit: str | None, now: float, by: str, reason: str = "") -> None:
        """Deliver nothing new; what sessions hold they may complete.

        Args:
            unit: its name; None pauses the whole member.
            now: seconds since 1970.
            by: who asks for it.
            reason: why.
        """
        self._record("pause", unit, (), now, by, reason)
        if unit is None:
            self._paused = UnitMark(paused=self._now, reason=reason)
            self._ledger.mark(WHOLE, self._paused)
            return
        found = self._units.get(unit)
        if found is None:
            found = self._units[unit] = Unit(unit, self._now)
        self._set_mark(found, replace(found.mark or UnitMark(), paused=self._now, reason=reason))
        self._refresh(found, self._now)

    def resume(self, unit: str | None, now: float, by: str, reason: str = "") -> None:
        """End a pause; what is not paused goes on anyway.

        Args:
            unit: its name; None for the whole member.
            now: seconds since 1970.
            by: who asks for it.
            reason: why.
        """
        self._record("resume", unit, (), now, by, reason)
        if unit is None:
            self._paused = None
            self._ledger.mark(WHOLE, None)
            return
        found = self._units.get(unit)
        if found is not None and found.mark is not None:
            self._set_mark(found, replace(found.mark, paused=None))
            self._refresh(found, self._now)

    def move(
        self, offsets: Iterable[int], to: str, now: float, by: str, reason: str = ""
    ) -> AdministrationRecord:
        """Send messages elsewhere, in order.

        Args:
            offsets: of the messages.
            to: where to, which the queue does not look at.
            now: seconds since 1970.
            by: who asks for it.
            reason: why.

        Returns:
            What is on record of it, and whether it breaks the order of a unit.

        Raises:
            UnitHeld: a session holds a message of one of their units.
            UnitError: one of the messages is not here.
        """
        return self._take_away("move", offsets, to, now, by, reason)

    def delete(
        self, offsets: Iterable[int], now: float, by: str, reason: str = ""
    ) -> AdministrationRecord:
        """Delete messages.

        Args:
            offsets: of the messages.
            now: seconds since 1970.
            by: who asks for it.
            reason: why.

        Returns:
            What is on record of it, and whether it breaks the order of a unit.

        Raises:
            UnitHeld: a session holds a message of one of their units.
            UnitError: one of the messages is not here.
        """
        return self._take_away("delete", offsets, "", now, by, reason)

    def records(self) -> list[AdministrationRecord]:
        """What was done by administration, the latest last."""
        return list(self._ledger.records)

    def _take_away(
        self, action: str, offsets: Iterable[int], to: str, now: float, by: str, reason: str
    ) -> AdministrationRecord:
        wanted = set(offsets)
        taken: dict[UnitKey, list[UnitMessage]] = {}
        for key, unit in self._units.items() if wanted else ():
            held = (unit.held or {}).values()
            if any(message.offset in wanted for message in held):
                self._not_held(unit)
            if chosen := [each for each in unit.waiting if each.offset in wanted]:
                self._not_held(unit)
                taken[key] = chosen
        missing = wanted.difference(each.offset for chosen in taken.values() for each in chosen)
        if missing or not wanted:
            what = f"offset {min(missing)}" if missing else "no offset"
            raise UnitError(f"cannot {action} {what}: no such message waits here; list the unit")
        kinds = {
            each.handover.kind for chosen in taken.values() for each in chosen if each.handover
        }
        if kinds - ({"arrives"} if action == "delete" else set()):
            raise UnitError(
                f"cannot {action} the record of a unit that goes to another member: leave it out;"
                " one by which a unit arrives can be deleted, which breaks its order"
            )
        if unsent := wanted.intersection(self._uncommitted):
            raise UnitError(
                f"cannot {action} offset {min(unsent)}: its send is not committed; wait until its"
                " producer commits or aborts it"
            )
        breaks = any(len(self._units[key].waiting) > len(chosen) for key, chosen in taken.items())
        name = next(iter(taken)) if len(taken) == 1 else None
        record = self._record(action, name, tuple(sorted(wanted)), now, by, reason, breaks)
        messages = [each for chosen in taken.values() for each in chosen]
        for message in sorted(messages, key=lambda each: each.offset):
            if to:
                self._ledger.depart(message, Outcome.MOVED, to, reason)
            else:
                self._ledger.finish(message, Outcome.DELETED)
        for key in taken:
            unit = self._units[key]
            self._ready.remove(unit)
            unit.waiting = [each for each in unit.waiting if each.offset not in wanted]
            self._unsettle(unit)
            unit.departed = unit.unsettled
            self._refresh(unit, self._now)
        return record

    def _found(self, unit: UnitKey) -> Unit:
        found = self._units.get(unit)
        if found is None:
            raise UnitError(f"unit {printable(unit)} has no messages here: look at another member")
        return found

    def _not_held(self, unit: Unit) -> None:
        if self._former:
            raise UnitHeld(
                f"unit {printable(unit.key)} may be held by a session of the former owner: wait"
                f" until {printable(min(self._former))} rejoins, or its lease is over"
            )
        if unit.held:
            raise UnitHeld(
                f"session {printable(unit.session)} holds messages of unit {printable(unit.key)}:"
                " wait until it completes them, or close it"
            )

    def _record(
        self,
        action: str,
        unit: UnitKey | None,
        offsets: tuple[int, ...],
        now: float,
        by: str,
        reason: str,
        breaks_order: bool = False,
    ) -> AdministrationRecord:
        at = self._at(now)
        number = self._ledger.records[-1].number + 1 if self._ledger.records else 1
        name = unit if unit is None else str(unit)
        record = AdministrationRecord(number, at, action, name, offsets, by, reason, breaks_order)
        self._ledger.record(record)
        return record
