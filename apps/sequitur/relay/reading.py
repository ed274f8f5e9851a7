"""Reading a log on and on, for the relay that leads.

Where nothing comes, the reader sleeps until the notifier wakes it. While messages keep coming it
stays awake and looks every few milliseconds: that costs less than to be woken for each of them,
and producers have nobody to wake.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from sequitur.relay.leadership import LeadershipTerm, RelayConfig
from stores.db.urls import said
from stores.message import Message
from stores.outbox import MessageLog
from stores.outbox.any_text import any_text
from stores.outbox.message import START, Page, Position
from stores.outbox.notifier import Notifier

PAGE_BYTES = 16 << 20
"""Content that a page should have at most, as far as the one before tells; no more of it is sent at
a time."""
_BY_INDEX = text(
    "SELECT set_config(name, 'off', false) "
    "FROM unnest(ARRAY['enable_seqscan', 'enable_bitmapscan']) AS name"
)
"""PostgreSQL plans once for all looks, maybe for a log that is empty just then; to read it from end
to end, deleted messages and all, is slow as soon as it was full."""
LOOKS = 5
"""Looks in vain after which the reader falls asleep."""


def read_again(engine: Engine, log: MessageLog, ids: Sequence[int]) -> dict[int, Message]:
    """Messages as `log` has them now, by id; those that are void by now are missing.

    Raises SQLAlchemyError.
    """
    with engine.connect() as connection, any_text(connection):
        return {message.id: message for message in log.read_ids(connection, ids)}


class LogUnavailable(Exception):
    """The log's database was away. What a crash of it has taken back, deletions above all, may be
    behind the position: who goes on has to begin at the start."""


class Reader:
    """Reads `log` from its start. One task's; it has connections of its own, until `run` ends."""

    def __init__(self, engine: Engine, log: MessageLog, config: RelayConfig) -> None:
        self._engine, self._log, self._config = engine, log, config
        self._connection: Connection | None = None
        self._away: str | None = None
        self._notifier = Notifier(engine, log)
        self._thread: asyncio.Future[Any] | None = None

    async def run(self, term: LeadershipTerm) -> None:
        """Read into `term.read`, and wake who sends. Raises Away."""
        position, limit, vain = START, 100, 0
        try:
            while True:
                page = await self._look(position, limit)
                if page.messages:
                    position, full, vain = page.position, len(page.messages) >= limit, 0
                    size = sum(len(message.content) for message in page.messages)
                    fits = PAGE_BYTES * len(page.messages) // max(1, size)
                    limit = max(1, min(self._config.page, fits, limit * 4))
                    await term.read.put(page.messages, limit)
                    term.woken.set()
                    if full:
                        continue
                elif (vain := vain + 1) > LOOKS:
                    await self._sleep(position, limit)
                    continue
                await asyncio.sleep(self._config.nap)
        finally:
            if self._thread is not None:
                await asyncio.gather(self._thread, return_exceptions=True)
            self._close()

    async def _look(self, position: Position, limit: int) -> Page:
        try:
            page: Page = await self._in_thread(partial(self._page, position, limit))
        except SQLAlchemyError as error:
            raise LogUnavailable(self._away) from error
        return page

    async def _sleep(self, position: Position, limit: int) -> None:
        def is_idle() -> bool:
            return not self._page(position, limit).messages

        await self._in_thread(partial(self._notifier.wait, self._config.poll, is_idle))
        if self._away is not None:  # the notifier takes it for a short sleep
            raise LogUnavailable(self._away)

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        """Connections are one thread's at a time: who is told to end waits for this one."""
        self._thread = asyncio.ensure_future(asyncio.to_thread(work))
        return await asyncio.shield(self._thread)

    def _page(self, position: Position, limit: int) -> Page:
        try:
            if self._connection is None:
                # No transaction: a look is one statement, and there are many of them.
                connection = self._engine.connect()
                self._connection = connection.execution_options(isolation_level="AUTOCOMMIT")
                if connection.dialect.name == "postgresql":
                    connection.execute(_BY_INDEX)
            with any_text(self._connection):
                return self._log.read_after(self._connection, position, limit)
        except SQLAlchemyError as error:
            self._away = said(error)
            self._close_connection()
            raise

    def _close(self) -> None:
        self._close_connection()
        self._notifier.close()

    def _close_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.invalidate()  # nobody else is to get it, as it plans
            with suppress(SQLAlchemyError):
                connection.close()
