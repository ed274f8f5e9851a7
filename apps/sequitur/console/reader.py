"""Reads for pages what the commands read: in a thread of its own, each thing once for all of them.

Nothing is read that no page asks for, but the changelogs once, at the start.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from topology.faust.inspection import gaps
from topology.faust.inspection.kept_folds import keep_folds
from topology.faust.operation.command_sender import acting_for

T = TypeVar("T")
FRESH = 2.0
"""Seconds for which an answer is good."""
SHARE = 4.0
"""For so many times as long as it took to find it is an answer good, so that what takes long is
asked rarely."""


@dataclass(frozen=True, slots=True)
class _Answer:
    made: float
    good_until: float
    value: Any


class Reader:
    """Answers questions about an app."""

    def __init__(self, app: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self.app, self._clock = app, clock
        self._answers: dict[str, _Answer] = {}
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._acts = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="reader", daemon=True)
        keep_folds(app)

    def __enter__(self) -> Self:
        self._thread.start()
        self.begin(self._prepare())
        return self

    async def _prepare(self) -> None:
        """Read what the first page would wait for; what goes wrong, that page says."""
        with suppress(Exception):
            await gaps(self.app, limit=0)

    def __exit__(self, *_: object) -> None:
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_end(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()

    async def ask(self, name: str, question: Callable[[Any], Awaitable[T]]) -> T:
        """The answer to a question, or the last one if that is fresh.

        Who asks while it is being answered waits for the same answer. Called in the pages' loop.
        name: tells questions apart.
        """
        last = self._answers.get(name)
        if last is not None and self._clock() < last.good_until:
            return last.value  # type: ignore[no-any-return]
        task = self._running.get(name)
        if task is None:
            task = asyncio.create_task(self._answer(name, question))
            self._running[name] = task
            task.add_done_callback(lambda task: self._answered(name, task))
        return await asyncio.shield(task)

    def _answered(self, name: str, task: asyncio.Task[Any]) -> None:
        self._running.pop(name, None)
        if not task.cancelled():
            task.exception()  # it is looked at: whoever asked may have left

    def last(self, name: str) -> Any:
        """The last answer to a question, however old; None without one."""
        found = self._answers.get(name)
        return None if found is None else found.value

    async def act(self, who: str, action: Callable[[Any], Awaitable[T]]) -> T:
        """Carry an action out in somebody's name. What was read before is stale then."""

        async def acted() -> T:
            with acting_for(who):
                return await action(self.app)

        try:
            return await self.there(acted())
        finally:
            self._acts += 1
            self._answers.clear()

    def begin(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Begin what takes long; it can be cancelled."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _answer(self, name: str, question: Callable[[Any], Awaitable[T]]) -> T:
        async def asked() -> T:
            try:
                return await question(self.app)
            except asyncio.CancelledError:
                # A client ended as cancelled: that is not the page's end, which asks again.
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise
                raise ConnectionError("what was asked for was cut off") from None

        began, acts = self._clock(), self._acts
        found = await self.there(asked())
        now = self._clock()
        old = [each for each, answer in self._answers.items() if now - answer.made > 60]
        for each in old:
            del self._answers[each]
        # What was asked before somebody acted does not say what came of it.
        good = max(FRESH, SHARE * (now - began)) if acts == self._acts else 0.0
        self._answers[name] = _Answer(now, now + good, found)
        return found

    async def there(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out in the reader's thread what reads nothing of the app."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


async def _end() -> None:
    """End what runs, with the processes that it started."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for each in tasks:
        each.cancel()
    if tasks:
        await asyncio.wait(tasks)
