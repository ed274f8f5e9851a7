"""Ending tasks and clients that do not heed a single cancellation.

A Kafka client that is stopped waits for tasks of its own and suppresses what cancels them, so that
a cancellation of whoever stops it may be swallowed; and its fetcher may swallow the cancellation
that its `stop` waits for, which then never returns.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

logger = logging.getLogger(__name__)

AGAIN = 2.0
"""Seconds for which a cancelled task may tidy up before it is cancelled again."""
STOP = 5.0
"""Seconds for which a client may take to stop."""


async def end_tasks(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks until they have ended, whatever they raise.

    Args:
        tasks: which; those that are done already do not matter.
    """
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # it is looked at: nobody else does


async def wait_for_stop(stopping: Awaitable[None], seconds: float = STOP) -> None:
    """Wait for a client to stop, but not for ever, and whatever it raises: its broker may be gone.

    As a task of its own, because a client whose fetch failed a moment before ends as cancelled,
    which must not pass for a cancellation of whoever waits here; and a cancellation of whoever
    waits here must not end in the client, which may swallow it.

    Args:
        stopping: what its `stop` or `close` returned.
        seconds: for how long.
    """
    task = asyncio.ensure_future(stopping)
    try:
        await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not task.done():
        task.cancel()
        logger.warning("a client did not stop within %.0f s", seconds)
    elif not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("a client failed while it stopped: %r", error)
