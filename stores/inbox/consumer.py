"""Working off an inbox: a loop that delivers until it is told to stop."""

import logging
from collections.abc import Callable
from threading import Event

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from stores.db.urls import said
from stores.inbox.inbox import Inbox
from stores.message import Message

logger = logging.getLogger(__name__)

NAP = 0.02
"""Seconds until it is looked again where there was nothing."""
AWAY = 0.5
"""Seconds until it is tried again where the database is away."""

Handle = Callable[[Connection, Message], None]
"""Processes a message by the connection; it must not end the transaction."""


def run_consumer(
    inbox: Inbox, handle: Handle, stopped: Event, *, batch: int = 1, nap: float = NAP
) -> int:
    """Deliver messages to a handler until it is told to stop.

    What the handler raises is logged, and noted in the inbox: the message comes again, and its
    stream is parked after the last attempt. A message that ends the process comes again as well,
    but is not counted as failed: nobody is left to do so.

    Args:
        inbox: whose messages they are.
        handle: processes a message by the connection, and does not end the transaction.
        stopped: ends the loop once it is set.
        batch: messages in one transaction.
        nap: seconds until it looks again where there was nothing.

    Returns:
        How many messages were processed.
    """
    done = 0
    while not stopped.is_set():
        try:
            done += _deliver(inbox, handle, stopped, batch, nap)
        except SQLAlchemyError as error:
            logger.warning("inbox %s: %s; trying again", inbox.name, said(error))
            stopped.wait(AWAY)
        except Exception:
            logger.exception("inbox %s: a message failed", inbox.name)
            stopped.wait(nap)
    return done


def _deliver(inbox: Inbox, handle: Handle, stopped: Event, batch: int, nap: float) -> int:
    done = 0
    try:
        with inbox.engine.connect() as connection:
            while not stopped.is_set():
                with inbox.batch(connection, batch) as messages:
                    for message in messages:
                        handle(connection, message)
                done += len(messages)
                if not messages:
                    stopped.wait(nap)
    finally:
        logger.debug("inbox %s: %d messages were processed", inbox.name, done)
    return done
