"""The inbox: a durable store beside the consumer's data, which delivers each message once.

What comes in is kept until it is processed; what came in already is discarded, for ever, at the
cost of two lines per stream. A delivery is a transaction of the consumer's own database in which a
message leaves the inbox together with what its processing changes, or neither happens.

    inbox = Inbox(engine, "warehouse")
    inbox.receive(messages)
    with engine.connect() as connection, inbox.delivery(connection) as message:
        if message is not None:
            connection.execute(…)

SQLite and PostgreSQL. In PostgreSQL any number of consumers deliver at once, each of other streams.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import SQLAlchemyError

from stores.db.data_errors import OF_DATA, is_of_data
from stores.db.urls import said
from stores.inbox.delivery_queue import DeliveryQueue
from stores.inbox.message import InboxError, ReceiveResult
from stores.inbox.order import Order
from stores.inbox.receiver import Receiver
from stores.inbox.rows import Partition, ReadRange
from stores.inbox.tables import OFFSETS, make
from stores.inbox.transaction import OwnTransaction, T, TransactionSource, deliver
from stores.message import Message

__all__ = ["Inbox", "InboxError", "Message", "ReadRange", "ReceiveResult"]

RECOVER_SECONDS = 1.0
"""Seconds, by this process's own clock, between looks for what a clock that was set back stalls."""


class Inbox:
    """A consumer's inbox in a database. It creates the tables that are missing.

    Args:
        engine: the database, SQLite or PostgreSQL.
        name: of the consumer. Inboxes of different names share nothing but the tables.
        order: "contiguous" for sequences that count from 1 without a gap, "monotonic" for the
            records of an output topic.
        attempts: how often a message may fail before its stream is parked, at least 1.
        backoff: seconds until a failed message comes again. They double after each failure.
        max_gap: how many sequences beyond its stream's last one a message may be. A message beyond
            is refused, and has to come again. None for any distance.

    Raises:
        InboxError: an argument is out of range.
    """

    def __init__(
        self,
        engine: Engine,
        name: str = "default",
        *,
        order: Order = "contiguous",
        attempts: int = 5,
        backoff: float = 1.0,
        max_gap: int | None = None,
    ) -> None:
        if attempts < 1 or backoff < 0 or (max_gap is not None and max_gap < 1):
            raise InboxError(
                f"inbox {name!r}: attempts={attempts}, backoff={backoff}, max_gap={max_gap}; "
                "attempts and max_gap must be at least 1, backoff at least 0"
            )
        self.engine = engine
        self.name = name
        self.order = order
        self.receiver = Receiver(name, order, max_gap)
        self.queue = DeliveryQueue(name, attempts, backoff)
        self._recovered = -RECOVER_SECONDS
        self._singly = 0
        """How many messages are to be delivered one by one."""
        with engine.begin() as connection:
            make(connection)

    def receive(
        self,
        messages: Iterable[Message],
        *,
        read: Mapping[Partition, ReadRange] | None = None,
        malformed: Sequence[tuple[str, bytes | None]] = (),
    ) -> ReceiveResult:
        """Take messages in, in one transaction, in whatever order they come and however often.

        They are durable when it returns: acknowledge all but the refused ones.

        Args:
            messages: the messages.
            read: from where to where partitions were read for this, kept in the same transaction.
                What a crash takes back then, in PostgreSQL, is read again from the offsets that are
                there.
            malformed: (reason, bytes) of what is no message, kept among the dead. What the database
                does not take as data is put there too.

        Raises:
            SQLAlchemyError: the database failed.
            Fenced: somebody else has read these partitions.
        """
        given = list(messages)
        try:
            with self.engine.begin() as connection:
                return self.receiver.receive(connection, given, read, malformed)
        except (SQLAlchemyError, *OF_DATA) as error:
            if not is_of_data(error) or not (unfit := self.unfit(given)):
                raise
        good = [message for message in given if id(message) not in unfit]
        bad = [unfit[id(message)] for message in given if id(message) in unfit]
        with self.engine.begin() as connection:
            return self.receiver.receive(connection, good, read, [*malformed, *bad])

    def unfit(self, messages: list[Message]) -> dict[int, tuple[str, bytes | None]]:
        """Those that the database does not take, by trying: `id()` → (reason, content).

        Args:
            messages: none of them is received by it.
        """
        try:
            with self.engine.connect() as connection, connection.begin() as trial:
                self.receiver.receive(connection, messages)
                trial.rollback()
            return {}
        except (SQLAlchemyError, *OF_DATA) as error:
            if not is_of_data(error):
                raise
            if len(messages) == 1:
                (one,) = messages
                told = f"{one.topic} {one.stream}: the database does not take it: {said(error)}"
                return {id(one): (told, one.content)}
        half = len(messages) // 2
        return self.unfit(messages[:half]) | self.unfit(messages[half:])

    def offsets(self) -> dict[Partition, int]:
        """The next offset of every partition that was read into the inbox.

        Returns:
            (topic, partition) → offset.
        """
        found = select(OFFSETS.c.topic, OFFSETS.c.partition, OFFSETS.c.next_offset)
        with self.engine.connect() as connection:
            rows = connection.execute(found.where(OFFSETS.c.inbox == self.name))
            return {(topic, partition): offset for topic, partition, offset in rows}

    @contextmanager
    def delivery(self, connection: Connection) -> Iterator[Message | None]:
        """A transaction on `connection` in which the next message leaves the inbox.

        It commits at the end of the block: what was done on the connection, and that the message
        is gone. If the block raises, all is rolled back, the failure is noted, and the error is
        raised on. The message comes again when its backoff is over, before any later one of its
        stream; after the last attempt the stream is parked.

        Args:
            connection: to the inbox's database, in no transaction. Do not commit or roll it back
                within the block.

        Returns:
            A context manager that gives the message, None if there is nothing to deliver.

        Raises:
            InboxError: the connection is in a transaction already, or was taken out of the
                delivery's one.
        """
        with deliver(self, self._own_transaction(connection)) as (messages, _):
            yield messages[0] if messages else None

    @contextmanager
    def batch(self, connection: Connection, messages: int = 500) -> Iterator[list[Message]]:
        """As `delivery`, with several messages in one transaction.

        If the block raises, its messages come again one by one, to whichever consumer of this
        object, so that the failure is noted for the message that caused it.

        Args:
            connection: see `delivery`.
            messages: how many at most, of as many streams.

        Returns:
            A context manager that gives the messages, in order per stream; empty if there is
            nothing to deliver.

        Raises:
            InboxError: see `delivery`.
        """
        with self.deliver_batch(self._own_transaction(connection), messages) as (found, _):
            yield found

    def _own_transaction(self, connection: Connection) -> OwnTransaction:
        if connection.in_transaction():
            raise InboxError(
                "the connection is in a transaction already; a delivery begins and ends its own: "
                "commit or roll back before, or use a new connection"
            )
        return OwnTransaction(self, connection)

    @contextmanager
    def deliver_batch(
        self, source: TransactionSource[T], messages: int
    ) -> Iterator[tuple[list[Message], T | None]]:
        """As `batch`, in a transaction of `source`; ([], None) if there is nothing to deliver.

        Args:
            source: of the transaction.
            messages: see `batch`.
        """
        limit = 1 if self._singly else messages
        with deliver(self, source, limit, limit) as found:
            yield found
        self._singly = max(0, self._singly - 1)

    def deliver_singly(self, messages: int) -> None:
        """Have messages delivered one by one, since one among them fails.

        Args:
            messages: how many.
        """
        self._singly = messages

    def recover(self, connection: Connection) -> None:
        """Check from time to time whether the database's clock was set back.

        See `DeliveryQueue.recover`.

        Args:
            connection: to the inbox's database.
        """
        now = time.monotonic()
        if now - self._recovered >= RECOVER_SECONDS:
            self._recovered = now
            with connection.begin():
                self.queue.recover(connection)
