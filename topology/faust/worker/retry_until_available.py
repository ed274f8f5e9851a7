"""A worker that finds no broker waits for one: which of them starts first is no matter."""

import asyncio
from collections.abc import Awaitable, Callable

from aiokafka.errors import KafkaError
from mode import get_logger

logger = get_logger(__name__)

FIRST, LONGEST = 1.0, 15.0
"""Seconds before the next try: at first, and at most; they double."""


async def retry_until_available(begin: Callable[[], Awaitable[None]], broker: str) -> None:
    """Try until it works, for as long as it takes; being cancelled ends it, as SIGTERM does.

    Only what another try may cure is tried again: not what the broker refuses.
    """
    delay = FIRST
    while True:
        try:
            await begin()
        except (KafkaError, OSError) as error:
            if isinstance(error, KafkaError) and not error.retriable:
                raise
            logger.warning(
                "no broker answers at %s: trying again in %.0f s; start it, or set "
                "SEQUITUR_BROKER: %s",
                broker, delay, error,
            )  # fmt: skip
            await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST)
        else:
            return
