"""Capture: a producer's messages go into the log in the transaction that changes its own tables.

    outbox = Outbox(MessageLog())
    with engine.begin() as connection:
        connection.execute(...)  # the producer's own tables
        outbox.capture(connection, "orders", order, "Placed", {"total": 12})

The transaction may be of SQLAlchemy (a Connection or Session, async ones with `acapture`), or of a
plain connection of sqlite3 or psycopg.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, cast

from sqlalchemy import Connection, TwoPhaseTransaction
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from stores.outbox.append_statements import AppendStatements
from stores.outbox.connection import Producer, producer
from stores.outbox.log import MessageLog
from stores.outbox.message import Draft, StreamId, checked
from stores.outbox.tables import MessageTables
from stores.two_phase.after_commit import after_commit

SyncConnection = Any
"""A Connection or Session of SQLAlchemy, or a connection of sqlite3 or psycopg."""
AsyncConnectionLike = AsyncConnection | AsyncSession


class Outbox:
    """Captures messages into a log, in the producer's own transaction.

    If the log is in another database, give `capture` the connection to that one, and coordinate
    both with `stores.two_phase`.

    Args:
        log: the log, whose tables are in the producer's database.
        notify: whether to wake a reader that sleeps (PostgreSQL). Otherwise it comes after its
            polling interval.
    """

    def __init__(self, log: MessageLog, *, notify: bool = True) -> None:
        self.log, self.notify = log, notify
        self._statements = cache(self._new_statements)

    def capture(
        self,
        connection: SyncConnection,
        topic: str,
        stream: StreamId,
        kind: str | None,
        content: Any,
        headers: Mapping[str, str] | None = None,
    ) -> int:
        """Append a message to the log, in the transaction of a connection.

        The sequence is the stream's next one. If the transaction is rolled back, the next
        transaction gets it. Until this one ends, other writers of the stream wait; those of other
        streams do not.

        Args:
            connection: a Connection or Session of SQLAlchemy, or a connection of sqlite3 or
                psycopg; not in autocommit.
            topic: the stream's topic.
            stream: the stream's id.
            kind: what happened, or None.
            content: bytes as they are, anything else as JSON.
            headers: text by name.

        Returns:
            The message's sequence.

        Raises:
            MessageRefused: this cannot be a message.
            MessageLogError: the log is not there, or there is no transaction. Roll the transaction
                back after this error, and after those of the database.
        """
        (sequence,) = self.capture_many(connection, [Draft(topic, stream, kind, content, headers)])
        return sequence

    def capture_many(self, connection: SyncConnection, drafts: Iterable[Draft]) -> list[int]:
        """Append messages to the log, in their order.

        This is faster than one by one. Streams are locked in their own order, so transactions that
        capture all they have by one call cannot get into a deadlock over streams.

        Args:
            connection: a Connection or a Session, in a transaction.
            drafts: the messages.

        Returns:
            Their sequences.

        Raises:
            MessageRefused: one of them cannot be a message.
            MessageLogError: see `capture`.
        """
        if isinstance(connection, AsyncConnectionLike):
            raise TypeError(f"{type(connection).__name__}: use await outbox.acapture(…)")
        rows = [checked(draft, self.log.max_content) for draft in drafts]
        if not rows:
            return []
        if isinstance(connection, Session | scoped_session):
            connection = connection.connection()
        return self._append(producer(connection), rows)

    async def acapture(
        self,
        connection: AsyncConnectionLike,
        topic: str,
        stream: StreamId,
        kind: str | None,
        content: Any,
        headers: Mapping[str, str] | None = None,
    ) -> int:
        """Append a message to the log: `capture` for asyncio.

        Args:
            connection: an AsyncConnection or an AsyncSession, in a transaction.
            topic: the stream's topic.
            stream: the stream's id.
            kind: what happened, or None.
            content: bytes as they are, anything else as JSON.
            headers: text by name.

        Returns:
            The message's sequence.
        """
        (sequence,) = await self.acapture_many(
            connection, [Draft(topic, stream, kind, content, headers)]
        )
        return sequence

    async def acapture_many(
        self, connection: AsyncConnectionLike, drafts: Iterable[Draft]
    ) -> list[int]:
        """Append messages to the log: `capture_many` for asyncio.

        Args:
            connection: an AsyncConnection or an AsyncSession, in a transaction.
            drafts: the messages.

        Returns:
            Their sequences.
        """
        if isinstance(connection, AsyncSession):
            connection = await connection.connection()
        return await connection.run_sync(self.capture_many, list(drafts))

    def _append(self, producer: Producer, rows: list[dict[str, Any]]) -> list[int]:
        two_phase = isinstance(producer.transaction, TwoPhaseTransaction)
        statements = self._statements(producer.dialect, self.notify and not two_phase)
        with producer.errors(self.log.name):
            sequences = (
                [statements.one(producer.run, rows[0])]
                if len(rows) == 1
                else statements.all(producer.run, rows)
            )
        if two_phase and self.notify:
            # PostgreSQL does not prepare a transaction that notifies, so that comes afterwards.
            connection = cast(Connection, producer.connection)
            after_commit(connection, statements.notify, statements.notify_values)
        return sequences

    def _new_statements(self, dialect: str, notifies: bool) -> AppendStatements:
        tables = MessageTables(self.log.name, self.log.schema, dialect)
        return AppendStatements(tables, dialect, notifies=notifies)
