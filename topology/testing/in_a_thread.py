"""Run coroutines to their end, also where an event loop is running already."""

import asyncio
import threading
import weakref
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cached_property
from typing import Any


def in_a_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in this thread's loop, the same for all, as in a worker; where another loop
    is running in it, in a thread behind it."""
    if asyncio._get_running_loop() is None:
        _own.loop.run_until_complete(work)
    else:
        _own.helper.submit(copy_context().run, in_a_thread, work).result()


class _Own(threading.local):
    """What each thread has."""

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        weakref.finalize(threading.current_thread(), runner.close)
        return runner.get_loop()

    @cached_property
    def helper(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "test driver")


_own = _Own()
