"""Work that may block, beside the event loop."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T]) -> T:
    """Do `work` in a thread of its own, and wait for it. Raises what it raises.

    Whoever is cancelled waits no longer. The thread ends with its work, or with the process: one
    that stands on a disk that does not answer keeps no worker from ending.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)  # type: ignore[arg-type]
        else:
            done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as reason:
            error = reason
        # The loop may have ended meanwhile: then nobody waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=run, daemon=True, name="sequitur disk").start()
    return await done
