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
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from stores.inbox.delivery_queue import Delivery
from stores.inbox.inbox import Inbox, counts
from stores.inbox.message import InboxError
from stores.message import Message
from stores.two_phase.coordinator import Coordinator
from stores.two_phase.log import TwoPhaseError


@contextmanager
def two_phase_delivery(
    inbox: Inbox, coordinator: Coordinator
) -> Iterator[tuple[Message | None, tuple[Connection, ...]]]:
    """As `Inbox.delivery`, in a transaction of `coordinator`, whose connections it gives.

    (None, ()) if there is nothing to deliver. The inbox's database is that of the coordinator's
    decisions, or one of its participants; the message is taken out by that connection, and a
    failure is noted there once all is rolled back. Raises InboxError where it is none of them.
    """
    at = _place(inbox, coordinator)
    while True:
        if not _is_due(inbox):
            yield None, ()
            return
        taken: Delivery | None = None
        try:
            with coordinator.transaction() as connections:
                mine = connections[at]
                taken = inbox.queue.take(mine, 1, 1)
                if taken is not None and taken.messages:
                    yield taken.messages[0], connections
                if taken is not None:
                    inbox.queue.settle(mine, taken)
        except Exception as error:
            if taken is not None and taken.messages:
                _note(inbox, taken, error)
            raise
        if taken is None or taken.messages:
            if taken is None:
                yield None, ()
            return


def _note(inbox: Inbox, taken: Delivery, error: Exception) -> None:
    if isinstance(error, TwoPhaseError) or not counts(error):
        return
    with suppress(SQLAlchemyError), inbox.engine.begin() as connection:
        inbox.queue.failed(connection, taken, f"{type(error).__name__}: {error}")


def _is_due(inbox: Inbox) -> bool:
    """A look that locks nothing, before databases are put to the trouble."""
    with inbox.engine.connect() as connection:
        inbox.recover(connection)
        return inbox.queue.is_due(connection)


def _place(inbox: Inbox, coordinator: Coordinator) -> int:
    engines = [coordinator.decisions.engine, *coordinator.participants.values()]
    for at, engine in enumerate(engines):
        if engine is inbox.engine or engine.url == inbox.engine.url:
            return at
    raise InboxError(
        f"inbox {inbox.name}: its database is none of the coordinator's; make the coordinator "
        "with the inbox's engine for the decisions, or as a participant"
    )
