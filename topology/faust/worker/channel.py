"""The channel through which an agent gets its work: one item per batch, never per event."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from faust.channels import Channel
from mode.utils.queues import FlowControlEvent, ThrowableQueue

from topology.model.ending import end_tasks
from topology.model.errors import described

Work = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Item:
    """Work for an agent; `done` tells when it is finished, or why it failed."""

    work: Work
    done: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    _task: asyncio.Task[None] | None = field(default=None, init=False)

    async def run(self) -> None:
        """Do the work, if somebody still waits for it; a failure goes to them, not to the agent."""
        if self.done.done():
            return
        # A task of its own can be ended without the agent.
        self._task = task = asyncio.create_task(self._settle())
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            # Who waits for it must not wait for ever.
            self.done.cancel()

    async def end(self) -> None:
        """Nobody waits for it any more: it does not begin, or is cancelled until it has ended."""
        self.done.cancel()
        if self._task is not None:
            await end_tasks(self._task)

    async def _settle(self) -> None:
        try:
            await self.work()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if not isinstance(error, Exception) or isinstance(error, StopIteration):
                # A future takes none of these, and a loop would end by them.
                error = RuntimeError(described(error))
            if not self.done.done():
                self.done.set_exception(error)
        else:
            if not self.done.done():
                self.done.set_result(None)


class WorkChannel(Channel):  # type: ignore[type-arg]
    """An in-memory channel, named after the topic whose batches it brings.

    All clones share one queue, which a rebalance neither suspends nor clears: the engine itself
    sees to it that nothing computed under an old assignment is kept.
    """

    def __init__(self, app: Any, topic: str, shared: Any = None, **kwargs: Any) -> None:
        super().__init__(app, **kwargs)
        self.topic = topic
        self._shared: list[ThrowableQueue[Item]] = [] if shared is None else shared

    @property
    def queue(self) -> "ThrowableQueue[Item]":
        if not self._shared:
            flow = FlowControlEvent(initially_suspended=False)
            self._shared.append(ThrowableQueue(flow_control=flow))
        return self._shared[0]

    def _clone_args(self) -> dict[str, Any]:
        return {**super()._clone_args(), "topic": self.topic, "shared": self._shared}

    def get_topic_name(self) -> str:
        return self.topic

    async def do(self, work: Work) -> None:
        """Have the agent do `work`, and wait until it is done. Raises what the work raises.

        Whoever is cancelled meanwhile waits until the work has ended, too: what comes next may
        be of the same streams.
        """
        item = Item(work)
        self.queue.put_nowait(item)
        try:
            await item.done
        except asyncio.CancelledError:
            await item.end()
            raise
