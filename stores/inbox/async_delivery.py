"""Deliveries for asyncio: the transaction of `Inbox.delivery` on an `AsyncConnection`."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncConnection

from stores.inbox.inbox import Inbox
from stores.message import Message


@asynccontextmanager
async def adelivery(inbox: Inbox, connection: AsyncConnection) -> AsyncIterator[Message | None]:
    """As `Inbox.delivery`, for asyncio. It needs the package greenlet, as SQLAlchemy does.

    Args:
        inbox: whose next message it is.
        connection: to the inbox's database, in no transaction.

    Returns:
        An asynchronous context manager that gives the message, None if there is nothing to deliver.

    Raises:
        InboxError: see `Inbox.delivery`.
    """
    delivery = ExitStack()
    message = await connection.run_sync(lambda sync: delivery.enter_context(inbox.delivery(sync)))
    try:
        yield message
    except BaseException as error:
        raised = type(error), error, error.__traceback__
        await connection.run_sync(lambda _: delivery.__exit__(*raised))
        raise
    await connection.run_sync(lambda _: delivery.close())
