"""Steps that one owner at a time does: what consumers and publishers have in common."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError

from stores.db.urls import said
from stores.segments.errors import StaleOwner
from stores.segments.ledger import SegmentLedger, SegmentOwner

logger = logging.getLogger(__name__)
PATIENCE = 300.0
"""Seconds of one step for which its lease is renewed."""


class OwnedWork(ABC):
    """Work under a lease; others stand by. Whatever ends a step has the next one begin anew."""

    def __init__(self, ledger: SegmentLedger, holder: str) -> None:
        self._ledger, self._holder = ledger, holder
        self._owner: SegmentOwner | None = None
        self._beginning: SegmentOwner | None = None
        self._since = 0.0
        self.failing: str | None = None
        """Why it does not go on, since it last did."""
        self.took: Callable[[float], None] = lambda seconds: None
        """Is told of the time of each unit of work."""

    @property
    def owns(self) -> bool:
        """Whether it does the work, and does not stand by."""
        return self._owner is not None

    async def step(self, wait: float = 0.1) -> int:
        """Do a unit of work; the first step, and the first after a failure, asks where to begin.

        Args:
            wait: seconds that a consumer waits for a message.

        Returns:
            How many messages it had; 0: there is none, a source pauses, or another one owns it.

        Raises:
            OSError: a store is full, a transport is away, a batch in doubt; call again, later.
            StaleOwner: another generation owns it; stop.
            SegmentDamaged: this pair stops until somebody has looked at it.
            PublishRefused: in one process, a destination refuses a message.
        """
        if self._owner is None and not await self._begin():
            return 0
        owner = self._owner
        assert owner is not None
        self._since = time.monotonic()
        try:
            if owner.is_due:  # a thread is not had for nothing
                await asyncio.to_thread(owner.renew)
            done = await self._work(owner, wait)
            if done:
                self.took(time.monotonic() - self._since)
            return done
        except (Exception, asyncio.CancelledError):  # what it had polled, or published, is in doubt
            self._owner = None
            await asyncio.to_thread(owner.let_go)
            raise

    async def run(self, *, pause: float = 0.02, retry: float = 1.0) -> None:
        """Work until cancelled. What is away is tried again.

        Args:
            pause: seconds to wait when there is nothing to do.
            retry: seconds to wait after a failure.

        Raises:
            SegmentError: this cannot go on until somebody has looked at it.
            PublishRefused: in one process, a destination refuses a message.
        """
        keeping = asyncio.create_task(self._keep())
        try:
            while True:
                try:
                    done = await self.step()
                    self.failing = None
                    if not done:
                        idle = self._ledger.stand_by if self._owner is None else pause
                        await asyncio.sleep(max(pause, idle))
                except (OSError, StaleOwner, SQLAlchemyError) as error:
                    if not isinstance(error, StaleOwner):
                        self.failing = said(error)
                    logger.warning("%s starts over: %s", self, said(error))
                    await asyncio.sleep(retry)
        finally:
            keeping.cancel()
            await self.stop()

    async def _keep(self) -> None:
        """Renew while a step takes long, but not for one that hangs where another might go on."""
        while True:
            owner = self._owner or self._beginning
            await asyncio.sleep(0.1 if owner is None else max(0.05, owner.lease.seconds / 4))
            if owner is not None and time.monotonic() - self._since < PATIENCE:
                with suppress(StaleOwner, SQLAlchemyError):  # the step learns of it
                    await asyncio.to_thread(owner.renew)

    async def stop(self) -> None:
        """Let go of what is owned, and of the transports."""
        owner, self._owner = self._owner, None
        await self._disconnect()
        if owner is not None:
            await asyncio.to_thread(owner.let_go)

    async def _begin(self) -> bool:
        await self._disconnect()
        owner = await asyncio.to_thread(self._own)
        if owner is None:
            return False
        self._beginning, self._since = owner, time.monotonic()
        try:
            await self._connect(owner)
        except (Exception, asyncio.CancelledError):
            await asyncio.to_thread(owner.let_go)
            raise
        finally:
            self._beginning = None
        self._owner = owner
        return True

    @abstractmethod
    def _own(self) -> SegmentOwner | None:
        """Own it, None while another one does."""

    @abstractmethod
    async def _connect(self, owner: SegmentOwner) -> None:
        """Connect, and go on where the one before ended."""

    @abstractmethod
    async def _work(self, owner: SegmentOwner, wait: float) -> int:
        """Do a unit of work; returns its messages."""

    @abstractmethod
    async def _disconnect(self) -> None:
        """Let go of the transports, if there are any."""
