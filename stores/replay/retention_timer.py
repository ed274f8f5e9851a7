"""Retention by itself: one server at a time drops what is older than the log keeps."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError

from stores.db.urls import said
from stores.locks.lease import Lease
from stores.replay.errors import ReplayError
from stores.replay.log import ReplayLog
from stores.replay.retention import Hole
from topology.model.printable import printable

logger = logging.getLogger(__name__)
EVERY = 3_600.0
"""Seconds between two looks."""


class RetentionTimer:
    """Drops periods of a log as they become too old.

    Args:
        log: which.
        keep: seconds that the log keeps.
        holder: who, for whoever asks.
        every: seconds between two looks.
        clock: says the milliseconds since 1970; None: the database's.
        lease: seconds after which a dead server's turn is another one's.
    """

    def __init__(
        self,
        log: ReplayLog,
        keep: float,
        holder: str,
        *,
        every: float = EVERY,
        clock: Callable[[], int] | None = None,
        lease: float = 10.0,
    ) -> None:
        self._log, self._keep, self._every, self._clock = log, keep, every, clock
        self._lease = Lease(log.engine, "replay-retention", holder, lease)

    async def run(self, stopped: asyncio.Event) -> None:
        """Look now, and every hour, until told to stop; what cannot be done is tried then."""
        while not stopped.is_set():
            try:
                await asyncio.to_thread(self.look)
            except (ReplayError, SQLAlchemyError) as error:
                logger.warning("retention is tried again in %.0f s: %s", self._every, said(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), self._every)

    def look(self) -> list[Hole]:
        """Drop what is too old now, unless another server does so; returns what is gone.

        Raises:
            ReplayError: somebody reads what is to go.
            SQLAlchemyError: the database cannot do it now.
        """
        self._lease.make()
        epoch = self._lease.acquire()
        if epoch is None:
            return []
        try:
            now = None if self._clock is None else self._clock()
            gone = self._log.retain(self._keep, now=now)
        finally:
            self._lease.release(epoch)
        for each in gone:
            logger.info("retention dropped %s", printable(each, 200))
        return gone
