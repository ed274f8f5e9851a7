"""The sessions of a member: who they are, what they hold, and how long their leases last."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from stores.db.steady_clock import elapsed, steady
from stores.units.errors import UnitError
from stores.units.kafka.row_log import SESSION
from stores.units.queue import Filter, Outcome
from stores.units.server.durability import Durability
from stores.units.server.session import Session, delivery_frame
from stores.units.server.settings import ServerSettings
from stores.units.server.succession import Succession
from stores.units.server.transactions import OwnerTransactions, Send
from stores.units.wire import NUMBERS
from topology.model.printable import printable
from topology.ordered_commit.offset_ranges import OffsetRanges

logger = logging.getLogger(__name__)

MOST_UNSETTLED = NUMBERS // 2
"""Completions of a session that are not durable beyond which it gets nothing: its `hello` to the
next owner has to tell of all."""


class MemberSessions(Durability):
    """Who consumes a member. See `Durability` and `Owner`."""

    def __init__(
        self, settings: ServerSettings, member: int, transactions: OwnerTransactions, url: str
    ) -> None:
        super().__init__(settings, member, transactions, url)
        self.sessions: dict[str, Session] = {}
        self._asking: dict[str, Session] = {}
        self.succession = Succession(())
        self._former_consumers: dict[str, str] = {}
        self._restored: tuple[int, OffsetRanges] = (0, OffsetRanges())
        self._fenced_former = self._former_lease = 0.0

    @property
    def _longest_lease(self) -> float:
        """The longest lease that any session may have: former servers may have granted longer."""
        lease = self.settings.lease
        over = self.succession.over and elapsed() > self._former_leases_end
        return lease if over else max(lease, self._former_lease)

    @property
    def _former_leases_end(self) -> float:
        """Until when a session may go on by what the former owner granted."""
        return self._fenced_former + self._former_lease

    @property
    def remaining(self) -> float:
        """Seconds for which a session may work from now on: since the last proof, a lease."""
        return self._proven + self.settings.lease - elapsed()

    def want(self, session: Session) -> None:
        """A session asks for more."""
        session.wants = True
        self._asking[session.name] = session
        self.tick()

    def grant(self, session: Session) -> float:
        """Let a session go on; returns for how many seconds."""
        remaining = max(0.0, self.remaining)
        session.granted = max(session.granted, elapsed() + remaining)
        return remaining

    def _end_leases(self) -> None:
        now = elapsed()
        for session in [each for each in self.sessions.values() if each.granted < now]:
            logger.info("session %s: its lease is over", printable(session.name))
            self.succession.forget(session.name)
            self.queue.lose_session(session.name, steady())
            self._forget(session)
        if self.succession.silent and now > self._fenced_former + self._longest_lease:
            for name in list(self.succession.silent):
                self.succession.forget(name)
                self._batch.rows[SESSION, name] = None
            self.tick()

    def _succeed(self, now: float) -> None:
        """Deliver from now on, if all that the former owner's sessions know is known."""

        def settle() -> None:
            self._batch.add(changes := self.queue.take_changes())
            self.queue.settled(changes.number, now)

        if (found := self.succession.decide(self.queue, now, settle)) is None:
            return
        for name, deliveries in found.items():
            session = self.sessions[name]
            session.held = {each.number: each for each in deliveries}
            session.completed.extend(session.told_completed)
            told = [*session.told_held, *session.told_completed]
            session.send("rejoined", **self._state(session, told))

    def join(
        self,
        name: str,
        prefetch: int,
        filter: Filter,
        held: list[int],
        completed: list[int],
        returned: list[int],
        consumer: str = "",
    ) -> tuple[Session, dict[str, Any]]:
        """A session connects, for the first time or again; returns it and what it is told.

        held, completed, returned: offsets, as the consumer knows of them. consumer: see `Session`.
        Raises UnitError.
        """
        session = self.sessions.get(name)
        whose = session.consumer if session else self._former_consumers.get(name, consumer)
        if whose != consumer and (session or name in self.succession.silent):
            raise UnitError(
                f"session {printable(name)} is another consumer's until its lease is over: give"
                " each consumer a name of its own"
            )
        if session is None:
            if len(self.sessions) >= self.settings.sessions:
                raise UnitError(
                    f"member {self.member} has {self.settings.sessions} sessions, no more are taken"
                )
            self.queue.open_session(name, filter, prefetch)
            session = self.sessions[name] = Session(name, consumer)
        lease = self.grant(session)
        session.told_held, session.told_completed = held, completed
        self.tick()
        if self.succession.tell(name, held, completed, returned):
            session.durable = True
            # Cut off again, it works on for as long as the former owner has said.
            session.granted = max(session.granted, self._former_leases_end)
            return session, {"epoch": self.epoch, "lease": lease, "pending": True}
        if not session.durable:
            self._batch.rows[SESSION, name] = {"since": steady(), "consumer": consumer}
            self._batch.confirm.append(lambda: self._made_durable(session))
        known = {each.message.offset: number for number, each in session.held.items()}
        if mine := [known[offset] for offset in completed if offset in known]:
            self.complete(session, mine)
        state = self._state(session, [*held, *completed])
        return session, {"epoch": self.epoch, "lease": lease, **state}

    def _state(self, session: Session, told: list[int]) -> dict[str, Any]:
        """Which of the offsets that it told of a session holds, and which are complete."""
        gone = [each for each in told if self._is_complete(session, each)]
        self._confirm(session, gone)
        there = frozenset(told)
        held = [
            delivery_frame(each, content=False)
            for each in session.held.values()
            if each.message.offset in there
        ]
        return {"d": held, "gone": gone}

    def _is_complete(self, session: Session, offset: int) -> bool:
        """Whether this session completed it: here, or as the former owner has heard."""
        if self.queue.is_stored(offset):
            return False
        position, done = self._restored
        return offset < position or offset in done or offset in session.completed

    def _confirm(self, session: Session, offsets: list[int]) -> None:
        """Tell a session of completions once they are durable."""

        def settle() -> None:
            session.unsettled -= len(offsets)
            session.send("settled", o=offsets)

        if offsets:
            session.unsettled += len(offsets)
            self._batch.confirm.append(settle)

    def _made_durable(self, session: Session) -> None:
        session.durable = True

    def leave(self, session: Session, complete: bool) -> None:
        """A session ends in order."""
        self.succession.forget(session.name)
        if self.sessions.get(session.name) is session:
            self.queue.close_session(session.name, steady(), complete)
            self._forget(session)

    def _forget(self, session: Session) -> None:
        del self.sessions[session.name]
        self._asking.pop(session.name, None)
        self._batch.rows[SESSION, session.name] = None
        asyncio.get_running_loop().create_task(session.close("lost"))
        self.tick()

    # What sessions say of their deliveries. Raises UnitError for what they do not hold.

    def complete(
        self,
        session: Session,
        numbers: list[int],
        how: Outcome = Outcome.ACKNOWLEDGED,
        sends: Iterable[Send] = (),
    ) -> None:
        """Deliveries are complete; the session is told once that is durable."""
        self._check(session)
        self.queue.complete(session.name, numbers, steady(), how)
        offsets = [session.held.pop(each).message.offset for each in dict.fromkeys(numbers)]
        session.completed.extend(offsets)

        def refused(why: str) -> None:  # nothing is done, and the deliveries stay held
            session.send("refused", n=numbers, held=numbers, why=why)

        self._batch.sends += [replace(each, refused=refused) for each in sends]
        self._batch.commits |= how is Outcome.COMMITTED
        self._confirm(session, offsets)
        self.tick()

    def roll_back(
        self,
        session: Session,
        numbers: list[int],
        delay: float | None,
        reason: str,
        failed: bool = True,
    ) -> None:
        """Deliveries failed; all that the session holds of their units returns."""
        self._check(session)
        self.queue.roll_back(session.name, numbers, steady(), delay, reason, failed)
        units = {session.held[n].message.unit for n in numbers if n in session.held} - {None}
        back = [n for n, each in session.held.items() if n in numbers or each.message.unit in units]
        session.send("returned", o=[session.held.pop(number).message.offset for number in back])
        self.tick()

    def _check(self, session: Session) -> None:
        if self.sessions.get(session.name) is not session:
            raise UnitError(f"session {session.name!r} is over; open another one")
