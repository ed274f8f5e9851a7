"""The relay: reads a log, sends, and deletes what is acknowledged; each of these for itself.

One at a time leads: it holds the lease, whose epoch is checked in every transaction that deletes,
and it alone can write to Kafka. What was sent and not acknowledged comes again, so receivers see
each message at least once, and each stream in order; what comes twice has its sequence.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from sequitur.relay.answers import Answering
from sequitur.relay.batch_queue import fitting
from sequitur.relay.leadership import LeadershipTerm, RelayConfig, RelayCounts
from sequitur.relay.link import Answer, Link, MissingRange, SendResult, Superseded, Unavailable
from sequitur.relay.rate_limit import RateLimit
from sequitur.relay.reading import PAGE_BYTES, LogUnavailable, Reader, read_again
from sequitur.relay.refusals import Refusals, divided
from sequitur.relay.retry import RetryUntilAvailable
from stores.locks.lease import Lease, LeaseLost
from stores.message import Message
from stores.outbox import MessageLog
from stores.outbox.message import damage
from stores.outbox.retention import RetentionStore
from topology.model.ending import end_tasks
from topology.model.printable import printable

logger = logging.getLogger(__name__)

DONE = 20_000
"""Messages that may wait to be deleted before no more are sent."""
CLASH = 30.0
"""Seconds, at most, that one of two relays that shut each other out leaves to the other."""
_NO_WAITING = text("SET LOCAL synchronous_commit = off")


class ReadAgain(Exception):
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
        config: RelayConfig | None = None,
    ) -> None:
        self.moved = RelayCounts()
        self.leading = asyncio.Event()
        self._engine, self._log, self._link, self._lease = engine, log, link, lease
        self._kept = RetentionStore(engine, log, keep) if keep else None
        self._config = config or RelayConfig()
        self._answering = Answering(engine, log, self._kept)
        self.term: LeadershipTerm | None = None
        """Its turn, while it leads."""
        self.unavailable: str | None = None
        """Why the receiver takes nothing, until it acknowledges a batch or the turn ends."""
        self.took: Callable[[float], None] = lambda seconds: None
        """Is told of the time of each batch."""
        self._identity = lease.name
        self._refusals = Refusals(lease.name)
        self._told = RateLimit()
        self._retrying = RetryUntilAvailable(lease.name, self._config.retry)

    async def run(self, stopped: asyncio.Event) -> None:
        """Wait for the lease and lead, again and again, until it is told to stop."""
        lead = asyncio.create_task(self._run())
        stop = asyncio.create_task(stopped.wait())
        try:
            await asyncio.wait({lead, stop}, return_when=asyncio.FIRST_COMPLETED)
            if lead.done():
                lead.result()
        finally:
            await end_tasks(lead, stop)
            await self._link.close()

    def missing(self, missing: Sequence[MissingRange]) -> None:
        """Somebody misses messages: answer with the next batch, if this relay leads."""
        if self.term is not None:
            self._answer_later(self.term, missing)

    async def _run(self) -> None:
        await self._retrying(self._make)
        self._identity = await self._retrying(self._lease.identity)
        while True:
            epoch = await self._retrying(self._lease.acquire)
            if epoch is None:
                await asyncio.sleep(min(self._config.poll, self._lease.seconds / 3))
                continue
            logger.info("relay %s leads, in turn %d", self._lease.name, epoch)
            try:
                await self._lead(LeadershipTerm(epoch))
            finally:
                self.leading.clear()
                self.term = self.unavailable = None
                with suppress(SQLAlchemyError):
                    await asyncio.shield(asyncio.to_thread(self._lease.release, epoch))

    def _make(self) -> None:
        self._log.create(self._engine)
        self._lease.make()
        if self._kept is not None:
            with self._engine.begin() as connection:
                self._kept.make(connection)

    async def _lead(self, term: LeadershipTerm) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._renew(term))
                await self._open(term)
                self.term = term
                self.leading.set()
                reader = Reader(self._engine, self._log, self._config)
                for work in (reader.run, self._send, self._delete):
                    group.create_task(work(term))
        except* LeaseLost as lost:
            logger.warning("%s", lost.exceptions[0])
        except* ReadAgain:
            logger.info("relay %s: what was left in the log is read now", self._lease.name)
        except* LogUnavailable as away:
            name, reason = self._lease.name, away.exceptions[0]
            logger.warning("relay %s: the log's database: %s; it begins anew", name, reason)

    async def _open(self, term: LeadershipTerm) -> None:
        """Shut an earlier relay out, and see that this one was not replaced meanwhile: then it
        would have shut out its own successor, which notices and comes back."""
        while True:
            try:
                await self._link.open(self._identity)
                break
            except (Unavailable, Superseded) as error:
                self.unavailable = str(error)
                if self._told(str(error)):
                    logger.warning("relay %s: %s", self._lease.name, error)
                await asyncio.sleep(self._config.retry)
        await self._retrying(partial(self._lease.renew, term.epoch))

    async def still_leads(self) -> None:
        """Raise LeaseLost if another relay leads by now."""
        if self.term is not None:
            await self._retrying(partial(self._lease.renew, self.term.epoch))

    async def _renew(self, term: LeadershipTerm) -> None:
        while True:
            await self._retrying(partial(self._lease.renew, term.epoch))
            if self._kept is not None:
                await self._retrying(self._expire)
            await asyncio.sleep(self._lease.seconds / 3)

    def _expire(self) -> None:
        assert self._kept is not None
        for _ in range(100):
            with self._engine.begin() as connection:
                if not self._kept.expire(connection):
                    return

    # -- send

    async def _send(self, term: LeadershipTerm) -> None:
        asked = time.monotonic()
        while True:
            now = time.monotonic()
            await self._take_answers(term)
            messages = await self._due(term, now)
            again = len(messages)
            if not messages and term.again:
                many = fitting(map(_size, term.again), PAGE_BYTES)
                messages, term.again = term.again[:many], term.again[many:]
                again = len(messages)
            if not messages and term.read:
                messages = term.outstanding.admit(term.read.take(PAGE_BYTES, _size))
            if not messages and not term.answers and now - asked < self._config.ask:
                if not term.read:
                    await self._wait(term)
                continue
            if not messages:
                asked = now
            answers, term.answers = term.answers, []
            sent = await self._transfer(term, messages, answers)
            refused = {message.id for message in sent.refused}
            taken = [message for message in messages if message.id not in refused]
            if refused:
                term.outstanding.refuse(sent.refused, time.monotonic(), sent.topics)
            self._refusals.tell(sent, taken, term.outstanding.whole)
            term.outstanding.settle(taken)
            self.moved.sent += len(taken)
            self.moved.again += again
            self.moved.voids += len(answers)
            self._answer_later(term, sent.missing)
            await term.done.put([message.id for message in taken], DONE)
            if term.outstanding.anew:
                raise ReadAgain

    async def _due(self, term: LeadershipTerm, now: float) -> list[Message]:
        """What is to be sent again, as the log has it now: a row may be repaired, or void."""
        held = term.outstanding.take(now, self._config.page, PAGE_BYTES)
        if not held:
            return []
        ids = [message.id for message in held]
        rows = await self._retrying(partial(read_again, self._engine, self._log, ids))
        term.outstanding.settle(message for message in held if message.id not in rows)
        kept = [(message, rows[message.id]) for message in held if message.id in rows]
        moved = any(
            (held_as.topic, held_as.stream) != (message.topic, message.stream)
            for held_as, message in kept
        )
        if moved or term.outstanding.anew:
            raise ReadAgain
        return [message for _, message in kept]

    async def _wait(self, term: LeadershipTerm) -> None:
        """Wait for something to send."""
        seconds = min(self._config.ask, term.outstanding.next - time.monotonic())
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await term.woken.wait()
        term.woken.clear()

    async def _transfer(
        self, term: LeadershipTerm, messages: Sequence[Message], answers: Sequence[Answer]
    ) -> SendResult:
        """Send until it is acknowledged: nothing of these streams may overtake it."""
        messages, refused, reason = divided(messages, lambda message: message.damage)
        while messages or answers or not refused:
            try:
                began = time.monotonic()
                sent = await self._link.send(messages, answers)
                self.unavailable = None
                self.took(time.monotonic() - began)
                sent.refused = [*refused, *sent.refused]
                sent.reason = reason or sent.reason
                return sent
            except Unavailable as error:
                self.unavailable = str(error)
                if self._told(str(error)):
                    logger.warning("relay %s: %s; it is sent again", self._lease.name, error)
                await asyncio.sleep(self._config.retry)
            except LeaseLost:
                raise
            except Superseded as error:
                logger.warning("%s", error)
                await self._clash(term)
            except Exception as error:
                messages, more, why = divided(messages, damage)
                refused, reason = [*refused, *more], reason or why
                if not more:
                    logger.exception("relay %s: %s", self._lease.name, printable(repr(error)))
                    await asyncio.sleep(self._config.retry)
            self.moved.again += len(messages)
            await self._open(term)
        return SendResult(refused, reason=reason)

    async def _clash(self, term: LeadershipTerm) -> None:
        """Twice shut out in one turn: somebody goes by another database."""
        term.fenced += 1
        if term.fenced > 1:
            logger.error(
                "relay %s: a relay with another database shuts this one out of Kafka, and this one "
                "it: is one database a copy of the other? Start one of them with --relay and a "
                "name of its own",
                self._lease.name,
            )
            await asyncio.sleep(min(self._config.retry * 2 ** min(term.fenced, 10), CLASH))

    def _answer_later(self, term: LeadershipTerm, missing: Sequence[MissingRange]) -> None:
        self._answering.ask(missing)
        if missing:
            term.woken.set()

    async def _take_answers(self, term: LeadershipTerm) -> None:
        if not self._answering.asked:
            return
        for asked, known in await self._retrying(self._answering.look):
            term.again += known.messages
            for first, last in known.voids:
                term.answers += await self._link.void(asked, first, last)

    # -- delete

    async def _delete(self, term: LeadershipTerm) -> None:
        try:
            while True:
                await term.done.there.wait()
                if len(term.done) < self._config.page:
                    # A transaction costs the same for one message as for many.
                    await asyncio.sleep(self._config.gather)
                ids = term.done.take()
                self.moved.deleted += await self._retrying(partial(self._forget, term, ids))
        finally:
            if term.done:
                with suppress(SQLAlchemyError, LeaseLost):
                    forget = asyncio.to_thread(self._forget, term, term.done.take())
                    self.moved.deleted += await asyncio.shield(forget)

    def _forget(self, term: LeadershipTerm, ids: list[int]) -> int:
        with self._engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                # Nobody waits for the disk: what a crash brings back is sent once more.
                connection.execute(_NO_WAITING)
            self._lease.check(connection, term.epoch)
            if self._kept is not None:
                self._kept.keep(connection, ids)
            return self._log.delete(connection, ids)


def _size(message: Message) -> int:
    return len(message.content)
