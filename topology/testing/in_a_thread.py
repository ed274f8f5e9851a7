"""Run coroutines to their end, also where an event loop is running already."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any


def in_a_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a thread of its own."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
