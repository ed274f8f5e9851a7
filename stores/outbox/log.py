"""A message log: messages in a database, with a sequence in each stream that has no gap.

A producer appends in the transaction that changes its own tables, so both are there or neither. A
reader reads what is committed, passes it on and acknowledges it, which deletes it. A log has any
number of producers, and one reader at a time.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice

from sqlalchemy import Connection, Engine

from stores.db.statement import Statement
from stores.message import Message
from stores.outbox.append_statements import MANY
from stores.outbox.message import MAX_CONTENT, START, Page, Position
from stores.outbox.ranges import SequenceRange, classify
from stores.outbox.read_statements import ReadStatements, among, chosen
from stores.outbox.tables import MessageTables
from stores.outbox.tombstones import Tombstones
from topology.model.printable import printable

MAX_RANGE = 100_000
"""Sequences that one look at a stream's range takes in."""


class MessageLog:
    """A message log in a database of SQLite or PostgreSQL.

    Every method works in the transaction of the connection that it is given, and leaves ending it
    to the caller.

    Args:
        name: the prefix of its tables.
        schema: the schema of its tables, in PostgreSQL.
        max_content: the most bytes of a message's content.

    Raises:
        MessageLogError: the arguments cannot be those of a log.
        MessageRefused: a method got what cannot be a message.
    """

    def __init__(
        self, name: str = "sequitur", *, schema: str | None = None, max_content: int = MAX_CONTENT
    ) -> None:
        self.name, self.schema, self.max_content = name, schema, max_content
        self._in = cache(self._parts)
        self._in("sqlite" if schema is None else "postgresql")  # what is wrong is said at once

    def __repr__(self) -> str:
        return f"MessageLog({self.name!r}, schema={self.schema!r})"

    def create(self, bind: Engine | Connection) -> None:
        """Make the tables that are missing.

        Args:
            bind: an engine, or a connection whose transaction they are made in.
        """
        if isinstance(bind, Engine):
            with bind.begin() as connection:
                return self.create(connection)
        self._of(bind).tables.create(bind)

    # The reader

    def read_after(
        self, connection: Connection, position: Position = START, limit: int = 1000
    ) -> Page:
        """Read on from a position, by id.

        Nothing is passed over that another transaction commits later: it comes with a later page,
        with its own, lower id; never behind a message of its stream with a higher sequence. Reads
        from `START` bring everything that was not acknowledged.

        Args:
            connection: to the log's database. It must not have appended to the log in this
                transaction.
            position: that of the page before.
            limit: the most messages of a page.

        Returns:
            The page, with the position behind it.
        """
        if limit < 1:
            raise ValueError(f"limit is {limit}: read at least one message")
        return self._of(connection).reading.after(connection, position, limit)

    def read_stream(
        self, connection: Connection, topic: str, stream: str, after: int = 0, limit: int = 1000
    ) -> tuple[Message, ...]:
        """Read the messages of a stream.

        Args:
            connection: to the log's database, in a transaction.
            topic: the stream's topic.
            stream: the stream's id.
            after: the sequence above which to begin.
            limit: the most messages to read.
        """
        values = {"topic": topic, "stream": stream, "after": after, "limit": limit}
        return self._of(connection).reading.stream(connection, values)

    def read_ids(self, connection: Connection, ids: Sequence[int]) -> tuple[Message, ...]:
        """Read messages again that a page had, as they are now, by id.

        Args:
            connection: to the log's database.
            ids: the messages' ids.

        Returns:
            Those that are still there.
        """
        return self._of(connection).reading.ids(connection, ids)

    def acknowledge(self, connection: Connection, page: Page) -> int:
        """Delete the messages of a page that are passed on.

        Args:
            connection: to the log's database, in a transaction.
            page: as it was read.

        Returns:
            How many of them were still there.
        """
        return self.delete(connection, [message.id for message in page.messages])

    def delete(self, connection: Connection, ids: Iterable[int]) -> int:
        """Delete messages, 1,000 at a time.

        Always by id: a range of ids may come to hold a message that was never read.

        Args:
            connection: to the log's database, in a transaction.
            ids: the messages' ids.

        Returns:
            How many of them were there.
        """
        rest, deleted = iter(ids), 0
        statement = self._of(connection).delete
        while some := list(islice(rest, MANY)):
            deleted += connection.execute(statement.clause, chosen(connection, some)).rowcount
        return deleted

    # What is known of a stream

    def last(self, connection: Connection, topic: str, stream: str) -> int:
        """Return the last sequence that a committed transaction gave to the stream, 0 if none did.

        Args:
            connection: to the log's database, in a transaction.
            topic: the stream's topic.
            stream: the stream's id.
        """
        return self._of(connection).voids.last(connection, topic, stream)

    def known(
        self, connection: Connection, topic: str, stream: str, first: int, last: int
    ) -> list[SequenceRange]:
        """Say what became of sequences of a stream.

        Args:
            connection: to the log's database, in a transaction.
            topic: the stream's topic.
            stream: the stream's id.
            first: the first sequence.
            last: the last sequence.

        Raises:
            ValueError: the sequences are no range.
        """
        if not 1 <= first <= last < first + MAX_RANGE:
            raise ValueError(f"sequences {first} to {last}: ask for 1 to {MAX_RANGE}, from 1 on")
        voids = self._of(connection).voids
        # The last one first: what comes after it is ahead, whatever was appended meanwhile.
        assigned = voids.last(connection, topic, stream)
        kept = voids.kept(connection, topic, stream, first, last)
        return classify(first, last, assigned, kept, voids.of(connection, topic, stream))

    def declare_void(
        self, connection: Connection, topic: str, stream: str, first: int, last: int, reason: str
    ) -> int:
        """Declare that sequences of a stream never come, and delete their messages.

        Args:
            connection: to the log's database, in a transaction.
            topic: the stream's topic.
            stream: the stream's id.
            first: the first sequence.
            last: the last sequence.
            reason: why, for whoever asks.

        Returns:
            How many messages were deleted.

        Raises:
            ValueError: no message has had one of the sequences yet; the next message would get it.
        """
        voids = self._of(connection).voids
        assigned = voids.last(connection, topic, stream, lock=True)
        if not 1 <= first <= last <= assigned:
            raise ValueError(
                f"sequences {first} to {last} of stream {printable(repr(stream))} of topic "
                f"{printable(repr(topic))} cannot be void: it has 1 to {assigned}"
            )
        return voids.declare(connection, topic, stream, first, last, reason)

    def _of(self, connection: Connection) -> "_Parts":
        return self._in(connection.dialect.name)

    def _parts(self, dialect: str) -> "_Parts":
        return _Parts(MessageTables(self.name, self.schema, dialect), dialect)


class _Parts:
    """A log's statements in one dialect."""

    def __init__(self, tables: MessageTables, dialect: str) -> None:
        self.tables = tables
        self.reading = ReadStatements(tables, dialect)
        self.voids = Tombstones(tables, dialect)
        messages = tables.sql(tables.messages)
        self.delete = Statement(f"DELETE FROM {messages} WHERE {among(dialect)}")
