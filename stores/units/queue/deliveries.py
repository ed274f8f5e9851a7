"""Sessions: what each gets, what it completes, what returns when it fails or ends."""

from collections.abc import Iterable

from stores.units.errors import StaleDelivery, UnitError
from stores.units.queue.message import EVERY, Delivery, Filter, Outcome, UnitMessage
from stores.units.queue.session import Session
from stores.units.queue.settings import QueueSettings
from stores.units.queue.unit import Unit
from stores.units.queue.unit_table import UnitTable
from topology.model.printable import printable

MOST_PREFETCH = 1_000
"""Messages that a session may hold at a time, at most."""


class Deliveries(UnitTable):
    """Who holds what. See `UnitQueue`."""

    def __init__(self, settings: QueueSettings) -> None:
        super().__init__(settings)
        self._last_number = 0

    def open_session(self, session: str, filter: Filter = EVERY, prefetch: int = 1) -> None:
        """Open a consumer's session.

        Args:
            session: its name.
            filter: which messages it takes.
            prefetch: how many messages it may hold at a time, 1 to 1,000.

        Raises:
            UnitError: it is open already, or the numbers are beyond their limits.
        """
        if session in self._sessions:
            raise UnitError(f"session {printable(session)} is open already: close it first")
        if not 1 <= prefetch <= MOST_PREFETCH:
            raise UnitError(
                f"prefetch={prefetch}: a session may hold 1 to {MOST_PREFETCH} messages"
            )
        self._ready.open_lane(filter)
        self._sessions[session] = Session(session, filter, prefetch)

    def close_session(self, session: str, now: float, complete: bool = False) -> None:
        """End a session in order: what it holds is completed, or returned without a delay.

        Args:
            session: its name; one that is not open is passed by.
            now: seconds since 1970.
            complete: whether what it holds is complete.
        """
        open_one = self._sessions.get(session)
        if open_one is None:
            return
        if complete:
            self.complete(session, list(open_one.held), now)
        self._end(open_one, self._at(now), Outcome.RETURNED)

    def lose_session(self, session: str, now: float) -> None:
        """End a session whose lease is over: all returns, and the first of each unit has failed.

        Args:
            session: its name; one that is not open is passed by.
            now: seconds since 1970.
        """
        open_one = self._sessions.get(session)
        if open_one is not None:
            self._end(open_one, self._at(now), Outcome.LOST)

    def next(self, session: str, now: float) -> list[Delivery]:
        """What a session gets now: as many messages as it may hold beyond what it holds.

        Args:
            session: its name.
            now: seconds since 1970.

        Raises:
            UnitError: it is not open.
        """
        taker = self._open(session)
        self.expire(now)
        found: list[Delivery] = []
        if self._paused:
            return found
        while len(taker.held) < taker.prefetch:
            unit = self._ready.first(taker.filter, taker.owned, session)
            if unit is None:
                break
            found.append(self._deliver(unit, taker, self._now))
        return found

    def complete(
        self,
        session: str,
        numbers: Iterable[int],
        now: float,
        how: Outcome = Outcome.ACKNOWLEDGED,
    ) -> None:
        """Deliveries are complete: they are never delivered again.

        Args:
            session: who holds them.
            numbers: of the deliveries, in any order.
            now: seconds since 1970.
            how: ACKNOWLEDGED or COMMITTED, which is counted.

        Raises:
            StaleDelivery: the session does not hold one of them; none is completed.
            UnitError: the session is not open.
        """
        holder = self._open(session)
        now = self._at(now)
        for number, unit in self._held(holder, numbers):
            self._ledger.finish(self._let_go(holder, unit, number), how)
            self._completed(unit, now)

    def roll_back(
        self,
        session: str,
        numbers: Iterable[int],
        now: float,
        delay: float | None = None,
        reason: str = "",
        failed: bool = True,
    ) -> None:
        """Deliveries failed: all that the session holds of their units returns, from the first.

        Args:
            session: who holds them.
            numbers: of the deliveries that failed; what else returns has not failed.
            now: seconds since 1970.
            delay: seconds until their units go on; None for the redelivery delay of the settings.
            reason: what is told of a unit that is poisoned by this.
            failed: whether these deliveries failed; if not, none is counted.

        Raises:
            StaleDelivery: the session does not hold one of them; none is rolled back.
            UnitError: the session is not open.
        """
        holder = self._open(session)
        wait = self._settings.redelivery_delay if delay is None else delay
        chosen: dict[Unit, list[int]] = {}
        for number, unit in self._held(holder, numbers):
            chosen.setdefault(unit, []).append(number)
        for unit, given in chosen.items():
            if failed:
                self._return(holder, unit, given, self._at(now), Outcome.ROLLED_BACK, wait, reason)
            else:
                self._return(holder, unit, [], self._at(now), Outcome.RETURNED, wait)

    def recover(self, session: str, now: float) -> None:
        """All that a session holds returns at once, from the first of each unit; none has failed.

        Args:
            session: its name.
            now: seconds since 1970.

        Raises:
            UnitError: it is not open.
        """
        holder = self._open(session)
        for unit in list(holder.units.values()):
            self._return(holder, unit, [], self._at(now), Outcome.RECOVERED)

    def rejoin(
        self,
        session: str,
        held: Iterable[int],
        completed: Iterable[int],
        now: float,
        returned: Iterable[int] = (),
        *,
        more: bool = False,
    ) -> list[Delivery]:
        """A session of the former owner, opened here, tells what it holds and what it completed.

        Args:
            session: its name.
            held: offsets that it still holds.
            completed: offsets whose completion the former owner did not confirm.
            now: seconds since 1970.
            returned: offsets that it rolled back, before others of their unit that it completed.
            more: whether it is going to tell more: until then it may hold anything.

        Returns:
            What it goes on holding, as new deliveries. It drops everything else that it had.

        Raises:
            UnitError: one of the offsets has not arrived here yet: read on and call it again; or
                the session is not open.
        """
        holder = self._open(session)
        now = self._at(now)
        back = set(returned)
        told = {**dict.fromkeys((*held, *back), True), **dict.fromkeys(completed, False)}
        if told and max(told) >= self._ledger.read_to:
            raise UnitError(
                f"session {printable(session)} knows offset {max(told)}, but the log was read up to"
                f" {self._ledger.read_to}: read on, then let it rejoin"
            )
        found = self._find(told)
        going_on: list[Delivery] = []
        for offset in sorted(found):
            unit = found[offset]
            # What is not the first of its unit was not delivered by the former owner.
            if unit.session not in (None, session) or unit.waiting[0].offset != offset:
                continue
            delivery = self._deliver(unit, holder, now)
            if not told[offset]:
                self.complete(session, [delivery.number], now)
            elif offset not in back:
                going_on.append(delivery)
        for unit in {found[offset] for offset in back & found.keys()}:
            if unit.session == session:
                self._return(holder, unit, [], now, Outcome.RETURNED)
        if not more:
            self.release_former(session)
        return going_on

    def release_former(self, session: str) -> None:
        """A session of the former owner holds nothing any more: its lease is over.

        Args:
            session: its name.
        """
        if session in self._former:
            self._former.discard(session)
            for unit in list(self._units.values()) if not self._former else ():
                self._refresh(unit, self._now)

    def _open(self, session: str) -> Session:
        found = self._sessions.get(session)
        if found is None:
            raise UnitError(
                f"session {printable(session)} is not open: its lease was over, or it was closed;"
                " open a new one"
            )
        return found

    def _held(self, holder: Session, numbers: Iterable[int]) -> list[tuple[int, Unit]]:
        wanted = list(dict.fromkeys(numbers))
        stale = [number for number in wanted if number not in holder.held]
        if stale:
            raise StaleDelivery(
                f"session {printable(holder.name)} does not hold delivery {stale[0]} any more: it"
                " was completed or returned before; drop its work, the message comes again if it"
                " is not complete"
            )
        return [(number, holder.held[number]) for number in wanted]

    def _deliver(self, unit: Unit, taker: Session, now: float) -> Delivery:
        """The head of a unit goes to a session, which has the unit from now on."""
        self._ready.remove(unit)
        self._last_number += 1
        message = unit.take(self._last_number)
        taker.held[self._last_number] = unit
        if unit.session is None:
            unit.session = taker.name
            taker.units[unit.key] = unit
            unit.since = now
        unit.open_at = 0.0
        self._refresh(unit, now)
        times = self._ledger.redelivered.get(message.offset, 0)
        return Delivery(self._last_number, message, times)

    def _let_go(self, holder: Session, unit: Unit, number: int) -> UnitMessage:
        assert unit.held is not None
        message = unit.held.pop(number)
        del holder.held[number]
        if not unit.held:
            unit.held = None
        return message

    def _completed(self, unit: Unit, now: float) -> None:
        """A unit had a message completed: it stays with its session until that is durable."""
        self._unsettle(unit)
        if unit.held is None and not unit.unsettled:  # ungrouped: nothing follows
            self._free(unit, now)

    def _free(self, unit: Unit, now: float) -> None:
        """A unit leaves its session: anybody may have what is left of it."""
        if unit.session is not None:
            self._sessions[unit.session].units.pop(unit.key, None)
        self._ready.remove(unit)
        unit.session = None
        unit.since = now
        self._refresh(unit, now)

    def _return(
        self,
        holder: Session,
        unit: Unit,
        failed: list[int],
        now: float,
        how: Outcome,
        delay: float = 0.0,
        reason: str = "",
    ) -> None:
        """All that a session holds of a unit returns; the deliveries `failed` are counted."""
        offsets = [unit.held[number].offset for number in failed] if unit.held else []
        numbers = list(unit.held or ())
        unit.put_back([self._let_go(holder, unit, number) for number in numbers])
        self._ledger.counts[how] += len(numbers)
        unit.open_at = now + min(max(delay, 0.0), self._settings.longest_wait)
        limit = self._settings.redelivery_limit
        for offset in offsets:
            self._ledger.failed(offset)
        self._free(unit, now)
        times = max((self._ledger.redelivered.get(offset, 0) for offset in offsets), default=0)
        if limit is not None and times > limit:
            self._poison(unit, now, reason or f"a message of it failed {times} times")

    def _end(self, session: Session, now: float, how: Outcome) -> None:
        for unit in list(session.units.values()):
            first = list(unit.held or ())[:1] if how is Outcome.LOST else []
            self._return(session, unit, first, now, how)
        self._ready.close_lane(session.filter)
        del self._sessions[session.name]

    def _find(self, offsets: Iterable[int]) -> dict[int, Unit]:
        """The units in which messages wait, by offset."""
        wanted = set(offsets)
        return {
            message.offset: unit
            for unit in (self._units.values() if wanted else ())
            for message in unit.waiting
            if message.offset in wanted
        }
