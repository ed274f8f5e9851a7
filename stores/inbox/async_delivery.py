"""Deliveries for asyncio: the same transaction on an `AsyncConnection`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncConnection

from stores.inbox.inbox import Inbox
from stores.inbox.message import InboxError
from stores.message import Message


@asynccontextmanager
async def adelivery(inbox: Inbox, connection: AsyncConnection) -> AsyncIterator[Message | None]:
    """As `Inbox.delivery`, on a connection to the inbox's database."""
    transaction, found = await connection.run_sync(inbox.begin, 1, 1)
    if transaction is None or found is None:
        yield None
        return
    try:
        yield found.messages[0]
        if not transaction.is_active:
            raise InboxError(
                "the transaction of a delivery was ended within its block; leave commit and "
                "rollback to the delivery, and raise an exception to have it rolled back"
            )
        await connection.run_sync(inbox.queue.settle, found)
        await connection.run_sync(lambda _: transaction.commit())
    except Exception as error:
        failure = error
        await connection.run_sync(lambda c: inbox.failed(c, found, failure))
        raise
    except BaseException:
        await connection.run_sync(lambda _: transaction.rollback())
        raise
