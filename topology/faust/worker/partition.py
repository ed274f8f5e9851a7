"""An input partition on this worker: started, watched, and started again when something fails."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced
from mode import get_logger

from stores.view_state import TableError, TableFenced
from topology.faust.worker.context import WorkerContext
from topology.faust.worker.runner import Runner
from topology.sequencer.memory_budget import Budget

logger = get_logger(__name__)

RETRY = 1.0
"""Seconds before a partition whose broker failed is started again; doubles up to RETRY_LIMIT."""
RETRY_LIMIT = 15.0

Crash = Callable[[BaseException], Coroutine[Any, Any, Any]]
"""Stops the worker because of an error."""

FAILURES = (KafkaError, TableError, OSError)
"""What a partition starts again after; anything else stops the worker."""


class Partition:
    """Keeps the runners of an input partition; subclasses know how they start.

    What fails one of them ends all of them, and nothing of their steps in hand is kept: they start
    anew from what is committed.
    """

    def __init__(self, source: TopicPartition, context: WorkerContext, crash: Crash) -> None:
        self.source = source
        self._context = context
        self.runners: dict[str, Runner] = {}
        self.stopping = False
        self._crash = crash
        self._fenced = context.settings.session_timeout
        self._again: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.budget: Budget | None = None
        """Of memory for the events that wait, where some do."""

    @property
    def is_running(self) -> bool:
        """Whether it has started, and does not start again."""
        return bool(self.runners) and self._again is None

    def join(self) -> None:
        """It will be started: whoever reads beside it may have to wait for it."""

    async def open(self) -> list[Runner]:
        """Runners that can start. Whatever it raises, nothing is left running."""
        raise NotImplementedError

    async def recover(self, error: TableError) -> None:
        """Make the tables, one of which could not be read or written, fit to be restored."""

    async def start(self) -> None:
        """Start the runners. Where that fails, it is tried again beside whoever waits here, and for
        the other partitions."""
        if not self.stopping:
            try:
                await self._begin()
            except FAILURES as error:
                if not self.stopping:
                    self._again = asyncio.create_task(self._carry_out(self._begin_again, error))

    async def _begin(self) -> None:
        runners = await self.open()
        if self.stopping:
            await self._end(runners, 0)
            return
        for runner in runners:
            self.run(runner)

    async def _begin_again(self, error: BaseException | None = None) -> None:
        """Start the runners, trying until it works or the partition is to stop. error: of a try
        before."""
        delay = RETRY
        while not self.stopping:
            if error is not None:
                logger.warning(
                    "cannot start %s/%d, trying again in %.0f s: %s", *self.source, delay, error
                )
                if isinstance(error, TableError):
                    await self.recover(error)
                await asyncio.sleep(self._fenced if isinstance(error, TableFenced) else delay)
                delay = min(delay * 2, RETRY_LIMIT)
            try:
                await self._begin()
                return
            except FAILURES as failed:
                error = failed

    def run(self, runner: Runner) -> None:
        """Start a runner."""
        self.runners[runner.view] = runner
        if self._context.timings is not None:
            runner.took = self._context.timings.commits(self.source.topic)
        runner.start(self._ended)

    def _ended(self, runner: Runner, error: BaseException | None) -> None:
        """A runner stopped: by itself only if its view joins the others, or if something failed."""
        if self.runners.get(runner.view) is not runner:
            return
        if error is None:
            del self.runners[runner.view]
        else:
            self.failed(error)

    def failed(self, error: BaseException) -> None:
        """Start again after what the broker or a disk did; anything else stops the worker."""
        if self.stopping or self._again is not None:
            return
        if isinstance(error, FAILURES):
            logger.warning("%s failed and starts again: %r", self.source, error)
            self._again = asyncio.create_task(self._carry_out(self._start_again, error))
        else:
            logger.error("%s failed: the worker stops", self.source, exc_info=error)
            self._again = asyncio.create_task(self._crash(error))

    async def _carry_out(self, start: Crash, error: BaseException) -> None:
        """Start again after an error; what is none of the broker or a disk stops the worker."""
        try:
            await start(error)
        except BaseException as unexpected:
            task = asyncio.current_task()
            if self.stopping or (task is not None and task.cancelling()):
                raise
            logger.error("%s cannot start: the worker stops", self.source, exc_info=unexpected)
            await self._crash(unexpected)
        else:
            self._again = None

    async def _start_again(self, error: BaseException) -> None:
        await self._close(RETRY)
        self._context.partitions.forget()
        # Another worker has the partition, as the group will tell this one soon. Fencing that
        # worker off in turn would only make the two take turns.
        fenced = isinstance(error, ProducerFenced | InvalidProducerEpoch | TableFenced)
        await asyncio.sleep(self._fenced if fenced else RETRY)
        if isinstance(error, TableError):
            await self.recover(error)
        await self._begin_again()

    async def stop(self, grace: float) -> None:
        """Finish the steps in hand within `grace` seconds, else drop them, and stop."""
        self.stopping = True
        if self._again is not None and self._again is not asyncio.current_task():
            self._again.cancel()
        await self._close(grace)

    async def _close(self, grace: float) -> None:
        runners, self.runners = list(self.runners.values()), {}
        await self._end(runners, grace)

    async def _end(self, runners: Iterable[Runner], grace: float) -> None:
        """Stop runners, and wait for all that are being stopped: what was begun by somebody who is
        cancelled meanwhile goes on."""
        for runner in runners:
            task = asyncio.create_task(runner.stop(grace))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        if closing := list(self._closing):
            await asyncio.wait(closing)  # which cancels none of them
            await asyncio.gather(*closing)  # so that a failure is raised
