"""A view's time limit: a handler that took longer for an event has failed it.

The core has no clock: a runtime that has one sets `clock`, the test driver says what a handler
takes. Without either no plain handler takes any time.
"""

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

from topology.declaration.seconds import is_seconds
from topology.model.changes import acollected, collected
from topology.model.errors import DeclarationError, HandlerError

MOST = 86_400.0
"""The most seconds of a time limit."""


class TooSlow(HandlerError):
    """A handler took longer for an event than its view allows."""


class Clock:
    """Where the time comes from that handlers take: seconds, from any start."""

    now: Callable[[], float] = staticmethod(lambda: 0.0)


def checked_timeout(view: str, timeout: object) -> float | None:
    """A view's time limit in seconds. Raises DeclarationError."""
    if timeout is None:
        return None
    if not is_seconds(timeout, MOST):
        raise DeclarationError(
            f"view {view!r}: timeout={timeout!r}; give the seconds that the handler may take for "
            f"an event, above 0 and {MOST:.0f} at most"
        )
    return float(timeout)


def timed(view: str, handler: Any, limit: float, is_async: bool) -> Any:
    """A handler that raises TooSlow where it took more than `limit` seconds for an event.

    An async one is cancelled then. A plain one cannot be: it fails when it comes back.
    """

    def check(began: float) -> None:
        took = Clock.now() - began
        if took > limit:
            raise TooSlow(
                f"the handler of view {view!r} took {took:.3g} s for the event; its limit is "
                f"{limit:g} s"
            )

    @functools.wraps(handler)
    def run(*arguments: Any) -> Any:
        began = Clock.now()
        items = handler(*arguments)
        # A generator does its work only when it is asked.
        items = items if items is None or isinstance(items, list | tuple) else collected(items)
        check(began)
        return items

    @functools.wraps(handler)
    async def arun(*arguments: Any) -> list[Any]:
        began = Clock.now()
        try:
            scope = asyncio.timeout(limit)
            # In the simulator there is no task: nothing takes any time, or could be cancelled.
            async with scope if asyncio.current_task() else contextlib.nullcontext():
                result = handler(*arguments)
                if hasattr(result, "__aiter__"):
                    items = await acollected(result)
                else:
                    items = collected(await result or ())
        except TimeoutError:
            if not scope.expired():
                raise
            raise TooSlow(
                f"the handler of view {view!r} was cancelled after its limit of {limit:g} s"
            ) from None
        check(began)
        if scope.expired():
            raise TooSlow(f"the handler of view {view!r} went on after its limit of {limit:g} s")
        return items

    if inspect.isgeneratorfunction(handler) or not is_async:
        return run
    return arun
