"""How far a partition has surely read: no gap is given up before all that came in time is in.

A timer alone would give up events that are merely unread: behind a backlog after an outage, or in
a source partition that is re-keyed more slowly than another. So a gap that is due waits for a
barrier: note the ends of the source's topics; wait until all before them is re-keyed; note the end
of the by-stream partition; when that is read, all that had arrived when the barrier began is known.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aiokafka.errors import KafkaError
from mode import get_logger

logger = get_logger(__name__)

Barrier = Callable[[], Awaitable[tuple[int, int]]]
"""() → (wall clock in ms when it began, the offset to read up to)."""


class Watermark:
    """The watermark of one by-stream partition; asked only while a gap is due."""

    def __init__(self, barrier: Barrier) -> None:
        self._barrier = barrier
        self._running: asyncio.Task[tuple[int, int]] | None = None

    def reached(self, position: int) -> int | None:
        """A time (ms) by which all that had arrived has been read, None while that is not known.

        position: the offset up to which the partition is read and processed.
        """
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        if not self._running.done():
            return None
        began, end = self._running.result()
        if position < end:
            return None
        self._running = None
        return began

    async def _run(self) -> tuple[int, int]:
        while True:
            try:
                return await self._barrier()
            except (KafkaError, OSError) as error:
                logger.warning("the broker does not answer, so no gap is skipped: %r", error)
                await asyncio.sleep(1)

    def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
