"""The transaction of a delivery: messages leave the inbox together with what they cause.

There is one, for `Inbox.delivery`, `Inbox.batch`, `adelivery`, `two_phase_delivery` and
`two_phase_batch`. They differ only in where the transaction comes from.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import (
    DBAPIError,
    InvalidRequestError,
    PendingRollbackError,
    ResourceClosedError,
    SQLAlchemyError,
)

from stores.db.data_errors import is_passing
from stores.inbox.delivery_queue import Delivery
from stores.inbox.message import InboxError
from stores.message import Message
from stores.two_phase import TwoPhaseError

if TYPE_CHECKING:
    from stores.inbox.inbox import Inbox

ROUNDS = 100
"""How often to look again where all that was found was void."""

_OF_USE = (InvalidRequestError, PendingRollbackError, ResourceClosedError)
"""How SQLAlchemy says that a connection was used wrongly; further kinds of the first do not."""

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class TransactionSource(Protocol[T_co]):
    """Where the transaction of a delivery comes from. T_co: what the caller works on in it."""

    def is_due(self) -> bool:
        """Whether it is worth while to begin a transaction."""
        ...

    def begin(self) -> AbstractContextManager[tuple[Connection, T_co]]:
        """A transaction: the connection to the inbox, and what the caller works on.

        It commits at the end of the block, and rolls back if the block raises.
        """
        ...

    def after_rollback(self) -> AbstractContextManager[Connection]:
        """A transaction of the inbox's database, once that of a delivery is rolled back."""
        ...


@dataclass(frozen=True, slots=True)
class OwnTransaction:
    """A transaction of the caller's connection, which is in none."""

    inbox: "Inbox"
    connection: Connection

    def is_due(self) -> bool:
        """Taking looks by itself."""
        self.inbox.recover(self.connection)
        return True

    @contextmanager
    def begin(self) -> Iterator[tuple[Connection, Connection]]:
        """See `TransactionSource`."""
        transaction = self.connection.begin()
        try:
            yield self.connection, self.connection
            transaction.commit()
        except BaseException:
            with suppress(SQLAlchemyError):
                if (current := self.connection.get_transaction()) is not None:
                    current.rollback()
                # A commit that SQLite has refused leaves its transaction open.
                self.connection.connection.rollback()
            raise

    @contextmanager
    def after_rollback(self) -> Iterator[Connection]:
        """See `TransactionSource`."""
        with self.connection.begin():
            yield self.connection


@contextmanager
def deliver(
    inbox: "Inbox", source: TransactionSource[T], limit: int = 1, streams: int = 1
) -> Iterator[tuple[list[Message], T | None]]:
    """Messages of up to `streams` streams, `limit` at most, and what the caller works on.

    ([], None) if there is nothing to deliver. If the block raises, all is rolled back, and the
    failure is noted, or, of several messages, they are to come again one by one.
    """
    for _ in range(ROUNDS):
        if not source.is_due():
            break
        delivery: Delivery | None = None
        try:
            with source.begin() as (connection, given):
                transaction = connection.get_transaction()
                delivery = inbox.queue.take(connection, limit, streams)
                if delivery is not None and delivery.messages:
                    yield delivery.messages, given
                    if transaction is None or not transaction.is_active:
                        raise InboxError(
                            "the transaction of a delivery was ended within its block; leave "
                            "commit and rollback to the delivery, and raise an exception to have "
                            "it rolled back"
                        )
                if delivery is not None:
                    inbox.queue.settle(connection, delivery)
        except Exception as error:
            if delivery is not None and delivery.messages:
                _failed(inbox, source, delivery, error)
            raise
        if delivery is None:
            break
        if delivery.messages:
            return
    yield [], None


def _failed(
    inbox: "Inbox", source: TransactionSource[object], delivery: Delivery, error: Exception
) -> None:
    if len(delivery.messages) > 1 or len(delivery.heads) > 1:
        inbox.deliver_singly(len(delivery.messages))
        return
    # Where the database is away it cannot be noted, and nothing is lost by that.
    with suppress(SQLAlchemyError), source.after_rollback() as connection:
        if caused_by_message(error):
            inbox.queue.failed(connection, delivery, f"{type(error).__name__}: {error}")
        else:
            inbox.queue.later(connection, delivery)


def caused_by_message(error: Exception) -> bool:
    """Whether the message itself caused the failure.

    What the database says of the data or of a statement counts, deferred constraints too. That the
    database is away, that transactions got in each other's way, and how the caller used the
    connection do not.
    """
    if isinstance(error, DBAPIError):
        return not is_passing(error)
    return type(error) not in _OF_USE and not isinstance(error, InboxError | TwoPhaseError)
