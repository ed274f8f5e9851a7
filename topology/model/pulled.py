"""Events that workers of the user's own ask for, and whose effects they hand back."""

import asyncio
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Any


class PulledEvent:
    """One attempt, in the hands of whoever has pulled it: `done` or `failed` ends it.

    In `async with`, what is raised fails it, and it is done at the end if nothing else was said.

    Args:
        event: as a handler has it; of a view with `batch`, a list of them.
        state: as a handler has it; None in `pulled(state=False)`.
        outcome: what the worker waits for.
    """

    def __init__(self, event: Any, state: Any, outcome: "asyncio.Future[list[Any]]") -> None:
        self.event = event
        self.state = state
        self._outcome = outcome

    @property
    def rolled_back(self) -> bool:
        """Whether it has ended, by its time limit for instance: what comes of it is dropped."""
        return self._outcome.done()

    def done(self, effects: Iterable[Any] = ()) -> bool:
        """Hand back its effects: `Upsert`, `Delete` and `Emit`.

        Args:
            effects: as a handler yields them.

        Returns:
            False if it has ended before: the effects are dropped.
        """
        if self._outcome.done():
            return False
        self._outcome.set_result([*effects])
        return True

    def failed(self, error: Exception) -> bool:
        """It has failed, as if a handler had raised it.

        Args:
            error: why.

        Returns:
            False if it has ended before.
        """
        if self._outcome.done():
            return False
        self._outcome.set_exception(error)
        return True

    async def __aenter__(self) -> "PulledEvent":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            self.done()
            return False
        known = isinstance(error, Exception)
        self.failed(error if isinstance(error, Exception) else RuntimeError("the puller ended"))
        return known


class PulledHandler:
    """A handler whose events wait until they are pulled, on the worker's loop: `pulled` makes it.

    `async for work in handler`, by as many pullers as there are, each event once.
    """

    def __init__(self) -> None:
        self._waiting: deque[PulledEvent] = deque()
        self._pullers: deque[asyncio.Future[PulledEvent]] = deque()

    async def next(self) -> PulledEvent:
        """The next event, as soon as there is one; its time limit begins."""
        work = await self._taken()
        services = (work.event[0] if isinstance(work.event, list) else work.event).services
        if services is not None:
            services.begins()
        return work

    async def _taken(self) -> PulledEvent:
        while self._waiting:
            work = self._waiting.popleft()
            if not work.rolled_back:
                return work
        puller: asyncio.Future[PulledEvent] = asyncio.get_running_loop().create_future()
        self._pullers.append(puller)
        try:
            return await puller
        except asyncio.CancelledError:
            if puller.done() and not puller.cancelled():
                self._offer(puller.result())
            raise

    def __aiter__(self) -> "PulledHandler":
        return self

    async def __anext__(self) -> PulledEvent:
        return await self.next()

    async def __call__(self, event: Any) -> list[Any]:
        """What the worker calls."""
        return await self._handed(event, None)

    async def _handed(self, event: Any, state: Any) -> list[Any]:
        outcome: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._offer(PulledEvent(event, state, outcome))
        # Cancelled, it takes the future with it: whoever has pulled it is told so by `done`.
        return await outcome

    def _offer(self, work: PulledEvent) -> None:
        while self._pullers:
            puller = self._pullers.popleft()
            if not puller.done():
                puller.set_result(work)
                return
        self._waiting.append(work)


class _PulledWithState(PulledHandler):
    async def __call__(self, event: Any, state: Any) -> list[Any]:  # type: ignore[override]
        """What the worker calls."""
        return await self._handed(event, state)


def pulled(*, state: bool = False) -> PulledHandler:
    """Make the handler of a view whose events workers of your own ask for.

    Args:
        state: whether the view keeps a state of each stream, which `PulledEvent.state` is.

    Returns:
        What to give as `handler=…` and to pull from.
    """
    return _PulledWithState() if state else PulledHandler()
