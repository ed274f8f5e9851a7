"""Going on with a database that is away at times."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from sequitur.relay.rate_limit import RateLimit
from stores.db.urls import said

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryUntilAvailable:
    """name: of the relay. retry: seconds until it is tried again. told: of the log."""

    name: str
    retry: float
    told: RateLimit = field(default_factory=RateLimit)

    async def __call__(
        self, work: Callable[[], T], thread: Callable[..., Awaitable[Any]] = asyncio.to_thread
    ) -> T:
        """Do something with the database, in a thread, and try again while it is away."""
        while True:
            try:
                found: T = await thread(work)
                return found
            except SQLAlchemyError as error:
                if self.told(reason := said(error)):
                    logger.warning("relay %s: the log's database: %s", self.name, reason)
                await asyncio.sleep(self.retry)
