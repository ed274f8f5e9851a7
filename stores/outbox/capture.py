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
    """Captures messages into `log`, whose tables are in the producer's database.

    Or in another one: then give `capture` the connection to that, and coordinate both by
    `stores.two_phase.coordinator`. notify: wake a reader that sleeps (PostgreSQL); without it, it
    comes by itself after its polling interval.

    `capture` raises MessageRefused for what cannot be a message, MessageLogError where the log is
    not there or there is no transaction, and what the database raises, as the producer's own
    statements do. After either of the last two the transaction must be rolled back.
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
        """Append a message to the log, in the transaction of `connection`; returns its sequence.

        The sequence is the stream's next one, and void if the transaction is rolled back: the next
        transaction gets it. Until this one ends, other writers of the stream wait, those of other
        streams do not. content: bytes as they are, anything else as JSON.
        """
        (sequence,) = self.capture_many(connection, [Draft(topic, stream, kind, content, headers)])
        return sequence

    def capture_many(self, connection: SyncConnection, drafts: Iterable[Draft]) -> list[int]:
        """Append messages, in their order; returns their sequences.

        Faster than one by one; and streams are locked in their own order, so transactions that
        capture all they have by one call cannot get into a deadlock over streams.
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
        """As `capture`, in the transaction of an AsyncConnection or AsyncSession."""
        (sequence,) = await self.acapture_many(
            connection, [Draft(topic, stream, kind, content, headers)]
        )
        return sequence

    async def acapture_many(
        self, connection: AsyncConnectionLike, drafts: Iterable[Draft]
    ) -> list[int]:
        """As `capture_many`, in the transaction of an AsyncConnection or AsyncSession."""
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
