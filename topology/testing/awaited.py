"""Run handlers that are coroutines, without an event loop that runs."""

import asyncio
from collections.abc import Coroutine
from functools import cache
from typing import Any


def complete(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for nothing but its turn. Raises TypeError if it does."""
    running = asyncio._get_running_loop()
    # Without a loop, what needs one would be the handler's failure, like any other.
    asyncio._set_running_loop(running or _loop())
    try:
        while True:
            try:
                waits = work.send(None)
            except StopIteration:
                return
            if waits is not None:
                work.close()
                raise TypeError(
                    "the simulator's clock is not the event loop's: a handler may await only what "
                    "is ready; give it a fake of what it calls"
                )
    finally:
        asyncio._set_running_loop(running)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """A loop that nobody runs."""
    return asyncio.new_event_loop()
