"""The relay: reads a log, sends, and deletes what is acknowledged; each of these for itself.

One at a time leads: it holds the lease, whose epoch is checked in every transaction that deletes,
and it alone can write to Kafka. What was sent and not acknowledged comes again, so receivers see
each message at least once, and each stream in order; what comes twice has its sequence.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from sequitur.relay.answers import Answering
from sequitur.relay.link import Answer, Link, Missing, Sent, Superseded, Unavailable
from sequitur.relay.patience import Patience
from sequitur.relay.reading import Away, Reader
from sequitur.relay.refusals import Refusals, divided
from sequitur.relay.seldom import Seldom
from sequitur.relay.turn import Moved, Pace, Turn
from stores.locks.lease import Lease, LeaseLost
from stores.message import Message
from stores.outbox.log import MessageLog
from stores.outbox.message import damage
from stores.outbox.retention import Kept
from topology.model.printable import printable

logger = logging.getLogger(__name__)

DONE = 20_000
"""Messages that may wait to be deleted before no more are sent."""
CLASH = 30.0
"""Seconds, at most, that one of two relays that shut each other out leaves to the other."""
_NO_WAITING = text("SET LOCAL synchronous_commit = off")


class Anew(Exception):
    """What waited is taken now, and what follows it is in the log, before the reader's position."""


class Relay:
    """Moves `log`, in the database of `engine`, by `link`. keep: seconds that what is acknowledged
    is kept for requests to send it again."""

    def __init__(
        self,
        engine: Engine,
        log: MessageLog,
        link: Link,
        lease: Lease,
        *,
        keep: float = 0.0,
        pace: Pace | None = None,
    ) -> None:
        self.moved = Moved()
        self.leading = asyncio.Event()
        self._engine, self._log, self._link, self._lease = engine, log, link, lease
        self._kept = Kept(engine, log, keep) if keep else None
        self._pace = pace or Pace()
        self._answering = Answering(engine, log, self._kept)
        self._turn: Turn | None = None
        self._identity = lease.name
        self._refusals = Refusals(lease.name)
        self._told = Seldom()
        self._patiently = Patience(lease.name, self._pace.retry)

    async def run(self, stopped: asyncio.Event) -> None:
        """Wait for the lease and lead, again and again, until it is told to stop."""
        lead = asyncio.create_task(self._run())
        stop = asyncio.create_task(stopped.wait())
        try:
            await asyncio.wait({lead, stop}, return_when=asyncio.FIRST_COMPLETED)
            if lead.done():
                lead.result()
        finally:
            for task in (lead, stop):
                task.cancel()
            await asyncio.gather(lead, stop, return_exceptions=True)
            await self._link.close()

    def missing(self, missing: Sequence[Missing]) -> None:
        """Somebody misses messages: answer with the next batch, if this relay leads."""
        if self._turn is not None:
            self._answer_later(self._turn, missing)

    async def _run(self) -> None:
        await self._patiently(self._make)
        self._identity = await self._patiently(self._lease.identity)
        while True:
            epoch = await self._patiently(self._lease.acquire)
            if epoch is None:
                await asyncio.sleep(min(self._pace.poll, self._lease.seconds / 3))
                continue
            logger.info("relay %s leads, in turn %d", self._lease.name, epoch)
            try:
                await self._lead(Turn(epoch))
            finally:
                self.leading.clear()
                self._turn = None
                with suppress(SQLAlchemyError):
                    await asyncio.shield(asyncio.to_thread(self._lease.release, epoch))

    def _make(self) -> None:
        self._log.create(self._engine)
        self._lease.make()
        if self._kept is not None:
            with self._engine.begin() as connection:
                self._kept.make(connection)

    async def _lead(self, turn: Turn) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._renew(turn))
                await self._open(turn)
                self._turn = turn
                self.leading.set()
                reader = Reader(self._engine, self._log, self._pace)
                for work in (reader.run, self._send, self._delete):
                    group.create_task(work(turn))
        except* LeaseLost as lost:
            logger.warning("%s", lost.exceptions[0])
        except* Anew:
            logger.info("relay %s: what was left in the log is read now", self._lease.name)
        except* Away as away:
            name, reason = self._lease.name, away.exceptions[0]
            logger.warning("relay %s: the log's database: %s; it begins anew", name, reason)

    async def _open(self, turn: Turn) -> None:
        """Shut an earlier relay out, and see that this one was not replaced meanwhile: then it
        would have shut out its own successor, which notices and comes back."""
        while True:
            try:
                await self._link.open(self._identity)
                break
            except (Unavailable, Superseded) as error:
                if self._told(str(error)):
                    logger.warning("relay %s: %s", self._lease.name, error)
                await asyncio.sleep(self._pace.retry)
        await self._patiently(partial(self._lease.renew, turn.epoch))

    async def _renew(self, turn: Turn) -> None:
        while True:
            await self._patiently(partial(self._lease.renew, turn.epoch))
            if self._kept is not None:
                await self._patiently(self._expire)
            await asyncio.sleep(self._lease.seconds / 3)

    def _expire(self) -> None:
        assert self._kept is not None
        for _ in range(100):
            with self._engine.begin() as connection:
                if not self._kept.expire(connection):
                    return

    # -- send

    async def _send(self, turn: Turn) -> None:
        asked = time.monotonic()
        while True:
            now = time.monotonic()
            await self._take_answers(turn)
            messages = turn.outstanding.take(now, self._pace.page)
            again = len(messages)
            if not messages and turn.again:
                messages, turn.again = turn.again, []
                again = len(messages)
            if not messages and turn.read:
                messages = turn.outstanding.admit(turn.read.take())
            if not messages and not turn.answers and now - asked < self._pace.ask:
                await self._wait(turn)
                continue
            if not messages:
                asked = now
            answers, turn.answers = turn.answers, []
            sent = await self._transfer(turn, messages, answers)
            refused = {message.id for message in sent.refused}
            taken = [message for message in messages if message.id not in refused]
            if refused:
                turn.outstanding.refuse(sent.refused, time.monotonic(), sent.topics)
            self._refusals.tell(sent, taken)
            turn.outstanding.settle(taken)
            self.moved.sent += len(taken)
            self.moved.again += again
            self.moved.voids += len(answers)
            self._answer_later(turn, sent.missing)
            await turn.done.put([message.id for message in taken], DONE)
            if turn.outstanding.anew:
                raise Anew

    async def _wait(self, turn: Turn) -> None:
        """Wait for something to send."""
        seconds = min(self._pace.ask, turn.outstanding.next - time.monotonic())
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await turn.woken.wait()
        turn.woken.clear()

    async def _transfer(
        self, turn: Turn, messages: Sequence[Message], answers: Sequence[Answer]
    ) -> Sent:
        """Send until it is acknowledged: nothing of these streams may overtake it."""
        messages, refused, reason = divided(messages, lambda message: message.damage)
        while messages or answers or not refused:
            try:
                sent = await self._link.send(messages, answers)
                sent.refused = [*refused, *sent.refused]
                sent.reason = reason or sent.reason
                return sent
            except Unavailable as error:
                if self._told(str(error)):
                    logger.warning("relay %s: %s; it is sent again", self._lease.name, error)
                await asyncio.sleep(self._pace.retry)
            except Superseded as error:
                logger.warning("%s", error)
                await self._clash(turn)
            except Exception as error:
                messages, more, why = divided(messages, damage)
                refused, reason = [*refused, *more], reason or why
                if not more:
                    logger.exception("relay %s: %s", self._lease.name, printable(repr(error)))
                    await asyncio.sleep(self._pace.retry)
            self.moved.again += len(messages)
            await self._open(turn)
        return Sent(refused, reason=reason)

    async def _clash(self, turn: Turn) -> None:
        """Twice shut out in one turn: somebody goes by another database."""
        turn.fenced += 1
        if turn.fenced > 1:
            logger.error(
                "relay %s: a relay with another database shuts this one out of Kafka, and this one "
                "it: is one database a copy of the other? Start one of them with --relay and a "
                "name of its own",
                self._lease.name,
            )
            await asyncio.sleep(min(self._pace.retry * 2 ** min(turn.fenced, 10), CLASH))

    def _answer_later(self, turn: Turn, missing: Sequence[Missing]) -> None:
        self._answering.ask(missing)
        if missing:
            turn.woken.set()

    async def _take_answers(self, turn: Turn) -> None:
        if not self._answering.asked:
            return
        for asked, known in await self._patiently(self._answering.look):
            turn.again += known.messages
            for first, last in known.voids:
                turn.answers += await self._link.void(asked, first, last)

    # -- delete

    async def _delete(self, turn: Turn) -> None:
        try:
            while True:
                await turn.done.there.wait()
                if len(turn.done) < self._pace.page:
                    # A transaction costs the same for one message as for many.
                    await asyncio.sleep(self._pace.gather)
                ids = turn.done.take()
                self.moved.deleted += await self._patiently(partial(self._forget, turn, ids))
        finally:
            if turn.done:
                with suppress(SQLAlchemyError, LeaseLost):
                    forget = asyncio.to_thread(self._forget, turn, turn.done.take())
                    self.moved.deleted += await asyncio.shield(forget)

    def _forget(self, turn: Turn, ids: list[int]) -> int:
        with self._engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                # Nobody waits for the disk: what a crash brings back is sent once more.
                connection.execute(_NO_WAITING)
            self._lease.check(connection, turn.epoch)
            if self._kept is not None:
                self._kept.keep(connection, ids)
            return self._log.delete(connection, ids)
