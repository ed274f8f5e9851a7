"""Retention by itself: one server at a time drops what is older than the log keeps."""

import asyncio
import logging
import time
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
_LEAP = 3_600_000
"""Milliseconds by which a clock may be ahead of what has passed since the last look."""


class RetentionTimer:
    """Drops periods of a log as they become too old: by the database's clock and by its own.

    Of the two the earlier one counts, and the own one goes no further in a leap than an hour.

    Args:
        log: which.
        keep: seconds that the log keeps.
        holder: who, for whoever asks.
        every: seconds between two looks.
        clock: says the milliseconds since 1970.
        passed: says the seconds that have passed since some moment; it never leaps.
        lease: seconds after which a dead server's turn is another one's.
    """

    def __init__(
        self,
        log: ReplayLog,
        keep: float,
        holder: str,
        *,
        every: float = EVERY,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        passed: Callable[[], float] = time.monotonic,
        lease: float = 10.0,
    ) -> None:
        self._log, self._keep, self._every = log, keep, every
        self._clock, self._passed = clock, passed
        self._before: tuple[int, float] | None = None
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
            gone = self._log.retain(self._keep, at_most=self._now())
        finally:
            self._lease.release(epoch)
        for each in gone:
            logger.info("retention dropped %s", printable(each, 200))
        return gone

    def _now(self) -> int:
        now, passed = self._clock(), self._passed()
        if self._before is not None:
            latest = self._before[0] + round((passed - self._before[1]) * 1000) + _LEAP
            if now > latest:
                logger.warning(
                    "retention: the clock leapt ahead by %d s; if it is right now, start the "
                    "server again",
                    (now - latest + _LEAP) // 1000,
                )
                return latest - _LEAP
        self._before = now, passed
        return now
