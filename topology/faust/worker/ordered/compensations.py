"""Compensations of attempts: their intents are durable before the call, and called until it works.

An intent is a row of the view's table. The unit that commits its event deletes it. So whatever row
a start finds is of an attempt that came to nothing, or of an event that the error policy passed
over: it is called, and only then is the event tried again.
"""

import asyncio
import inspect
import time
from collections.abc import Collection
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from aiokafka import TopicPartition
from mode import get_logger

from topology.engine.staged_effects import Staged
from topology.engine.state.rows import INTENTS, intent_key, intent_offset
from topology.faust.worker.handler_threads import HandlerThreads
from topology.faust.worker.ordered.lease import RolledBack
from topology.model.errors import described
from topology.model.partition_table import Row
from topology.model.printable import printable
from topology.ordered_commit import Grant

if TYPE_CHECKING:
    from topology.faust.worker.ordered.ordered_runner import OrderedRunner

logger = get_logger(__name__)

Undoing = dict[tuple[TopicPartition, int], set["Future[Any]"]]

FIRST, LONGEST = 0.1, 30.0
"""Seconds before a compensation that failed is called again; doubled each time."""
OWED = 0.05
"""Seconds after which an event is looked at again whose compensations are not done."""


class Compensations:
    """The intents of a partition: of attempts in hand, and those that are owed.

    Args:
        runner: of the partition.
        settled: keys of rows whose events are committed in a database: nothing is owed of them.
        undoing: see `WorkerContext`.
    """

    def __init__(
        self, runner: "OrderedRunner", settled: Collection[bytes], undoing: Undoing
    ) -> None:
        self._runner, self._undoing = runner, undoing
        self._view = runner.stage.view
        self._functions = runner.stage.work.compensations
        self._intended: dict[int, list[Row]] = {}
        self._owed: dict[int, list[Row]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # They may hang: others, and the end of the process, do not wait for them.
        self._threads = HandlerThreads(
            runner.stage.work.workers, f"sequitur {self._view.name} undo"
        )
        self._last = 0
        self._closed = False
        for key, row in runner.step.table(runner.stage.name).scan(*INTENTS):
            if key not in settled:
                self._owed.setdefault(intent_offset(key), []).append((key, row))

    def start(self) -> None:
        """Call what is owed from before."""
        for offset in self._owed:
            self._start(offset)

    async def intend(self, grant: Grant, name: str, arguments: bytes, key: str) -> None:
        """Make an intent durable. Raises RolledBack if its attempt does not count any more."""
        runner = self._runner
        if not runner.core.counts_still(grant):
            raise RolledBack("the attempt was rolled back: it is to call nothing more")
        row = orjson.dumps({"function": name, "arguments": orjson.Fragment(arguments), "key": key})
        # Also where the clock is set back, the newest has the highest.
        self._last = max(self._last + 1, time.time_ns())
        made = intent_key(grant.offset, self._last), row
        self._intended.setdefault(grant.number, []).append(made)
        await runner.durable([made])
        if not runner.core.counts_still(grant):
            raise RolledBack("the attempt was rolled back: it is to call nothing more")

    def put(self, grant: Grant, staged: Staged) -> None:
        """The attempt has succeeded: at its turn nothing is owed any more."""
        staged.rows += [(key, None) for key, _ in self._intended.get(grant.number, ())]

    def committed(self, grant: Grant) -> None:
        """The attempt is durable."""
        self._intended.pop(grant.number, None)

    def intended(self, grant: Grant) -> int:
        """How many intents an attempt has so far."""
        return len(self._intended.get(grant.number, ()))

    def owe(self, grant: Grant, since: int = 0) -> None:
        """The attempt has ended, and came to nothing. since: of these intents on."""
        intents = self._intended.pop(grant.number, [])
        if since:
            self._intended[grant.number] = intents[:since]
        if intents[since:]:
            self._owed.setdefault(grant.offset, []).extend(intents[since:])
            self._start(grant.offset)

    def owes(self, offset: int) -> bool:
        """Whether an event has to wait for compensations of its last attempt."""
        return offset in self._owed

    def keys_owed(self) -> set[str]:
        """The idempotency keys of events of which something is owed.

        An event that is parked meanwhile comes again by another offset, and by the same key.
        """
        rows = (row for each in self._owed.values() for _, row in each if row)
        return {orjson.loads(row)["key"] for row in rows}

    def close(self) -> None:
        """Call nothing more."""
        self._closed = True
        self._threads.close()
        for task in self._tasks.values():
            task.cancel()

    def _start(self, offset: int) -> None:
        if offset not in self._tasks and not self._closed:
            task = self._tasks[offset] = asyncio.create_task(self._call_all(offset))
            task.add_done_callback(lambda _: self._tasks.pop(offset, None))

    async def _call_all(self, offset: int) -> None:
        core, delay, owed = self._runner.core, FIRST, self._owed[offset]
        while any(event.offset == offset for each in core.still_running for event in each.events):
            await asyncio.sleep(OWED)  # a thread of an earlier run may still make its call
        while (self._runner.source, offset) in self._undoing:
            await asyncio.sleep(OWED)  # or be in the middle of this one
        while owed:
            made = max(owed)  # the newest first
            try:
                await self._call(offset, made[1] or b"")
            except BaseException as error:
                if self._closed:
                    raise
                core.counts.compensation_failures += 1
                logger.warning(
                    "view %s: a compensation of offset %d failed, and is called again in %.1f s: "
                    "%s", self._view.name, offset, delay, printable(described(error), 1000),
                )  # fmt: skip
                await asyncio.sleep(delay)
                delay = min(2 * delay, LONGEST)
                continue
            core.counts.compensated += 1
            owed.remove(made)
            self._runner.put_aside([(made[0], None)])
        del self._owed[offset]

    async def _call(self, offset: int, row: bytes) -> None:
        intent: dict[str, Any] = orjson.loads(row)
        function = self._functions.get(intent["function"])
        if function is None:
            raise LookupError(
                f"compensation {intent['function']!r} is not declared any more; declare it again"
            )
        if inspect.iscoroutinefunction(function):
            await function(intent["arguments"], intent["key"])
        else:
            call = partial(function, intent["arguments"], intent["key"])
            running = self._threads.submit(call)
            at = self._runner.source, offset
            self._undoing.setdefault(at, set()).add(running)
            running.add_done_callback(partial(self._undone, at))
            made = await asyncio.wrap_future(running)
            if inspect.isawaitable(made):
                # Of a lambda, or an object, whose call is to be awaited.
                await made

    def _undone(self, at: tuple[TopicPartition, int], running: "Future[Any]") -> None:
        """A call has ended; in its thread."""
        calls = self._undoing[at]
        calls.discard(running)
        if not calls:
            del self._undoing[at]
