"""Deliveries where the consumer's own tables are in another database than the inbox.

    coordinator = Coordinator(warehouse_engine, {"inbox": inbox.engine})
    with two_phase_delivery(inbox, coordinator) as (message, connections):
        if message is not None:
            warehouse, _ = connections
            warehouse.execute(…)

The message leaves the inbox and the updates are made by one two-phase transaction. Where its
outcome is unknown for a time (`OutcomeUnknown`), it is one of both for the message too: recovery
commits it, or rolls it back and the message comes again.

So the stream is locked until the updates can be seen: those are committed first. Where the inbox's
database decides it is the other way round, and the next message may come before they are seen.

A commit in two databases waits for the disk three times: prepared, decided, committed.
`two_phase_batch` takes several messages at a time, and pays that once for all of them.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from stores.inbox.inbox import Inbox
from stores.inbox.message import InboxError
from stores.inbox.transaction import deliver
from stores.message import Message
from stores.two_phase import Coordinator


@contextmanager
def two_phase_delivery(
    inbox: Inbox, coordinator: Coordinator
) -> Iterator[tuple[Message | None, tuple[Connection, ...]]]:
    """As `Inbox.delivery`, in a transaction of several databases.

    Args:
        inbox: whose next message it is. Its database keeps the coordinator's decisions, or is one
            of the participants.
        coordinator: makes the transaction.

    Returns:
        A context manager that gives the message and the coordinator's connections; (None, ()) if
        there is nothing to deliver.

    Raises:
        InboxError: the inbox's database is none of the coordinator's.
        OutcomeUnknown: it is not known yet whether all is committed; the message is gone or comes
            again with it.
        TwoPhaseError: the transaction cannot be made, and nothing is committed.
    """
    with deliver(inbox, _source(inbox, coordinator)) as (messages, connections):
        yield (messages[0] if messages else None), connections or ()


@contextmanager
def two_phase_batch(
    inbox: Inbox, coordinator: Coordinator, messages: int = 500
) -> Iterator[tuple[list[Message], tuple[Connection, ...]]]:
    """As `Inbox.batch`, in a transaction of several databases.

    If the block raises, or the commit fails, its messages come again one by one, to whichever
    consumer of this object.

    Args:
        inbox: see `two_phase_delivery`.
        coordinator: see `two_phase_delivery`.
        messages: how many at most, of as many streams.

    Returns:
        A context manager that gives the messages, in order per stream, and the coordinator's
        connections; ([], ()) if there is nothing to deliver.

    Raises:
        InboxError: the inbox's database is none of the coordinator's.
        OutcomeUnknown: it is not known yet whether all is committed; the messages are gone or come
            again with it.
        TwoPhaseError: the transaction cannot be made, and nothing is committed.
    """
    with inbox.deliver_batch(_source(inbox, coordinator), messages) as (found, connections):
        yield found, connections or ()


@dataclass(frozen=True, slots=True)
class _Coordinated:
    """A transaction of a coordinator. place: of the inbox's connection among its connections."""

    inbox: Inbox
    coordinator: Coordinator
    place: int

    def is_due(self) -> bool:
        """A look that locks nothing, before databases are put to the trouble."""
        with self.inbox.engine.connect() as connection:
            self.inbox.recover(connection)
            return self.inbox.queue.is_due(connection)

    @contextmanager
    def begin(self) -> Iterator[tuple[Connection, tuple[Connection, ...]]]:
        """See `TransactionSource`."""
        with self.coordinator.transaction() as connections:
            yield connections[self.place], connections

    def after_rollback(self) -> AbstractContextManager[Connection]:
        """See `TransactionSource`."""
        return self.inbox.engine.begin()


def _source(inbox: Inbox, coordinator: Coordinator) -> _Coordinated:
    engines = [coordinator.decisions.engine, *coordinator.participants.values()]
    for at, engine in enumerate(engines):
        if engine is inbox.engine or engine.url == inbox.engine.url:
            return _Coordinated(inbox, coordinator, at)
    raise InboxError(
        f"inbox {inbox.name}: its database is none of the coordinator's; make the coordinator "
        "with the inbox's engine for the decisions, or as a participant"
    )
