"""The workers of a partition: each takes what may be begun, has it handled, and takes the next."""

import asyncio
import os
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mode import get_logger

from stores.view_state.table import TableError
from topology.declaration.ordered_stage import Release
from topology.engine.output.failure import log_failure
from topology.engine.redelivery.records import AT_WORKERS, bury
from topology.engine.release_record import tell_workers
from topology.engine.staged_effects import ALL, Staged, touched_keys
from topology.engine.stream_task import malformed
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.handler_threads import HandlerThreads
from topology.faust.worker.ordered.attempt_services import AttemptServices
from topology.faust.worker.ordered.compensations import OWED
from topology.faust.worker.ordered.lease import BehindOlder, DatabaseAway
from topology.faust.worker.ordered.own_process import OwnProcess, ProcessNotStarted
from topology.faust.worker.ordered.settling import Settling
from topology.handler_process import home_of
from topology.model.batches import by_event
from topology.model.changes import acollected, collected
from topology.model.errors import HandlerError, Malformed
from topology.model.event import Event
from topology.model.printable import printable
from topology.model.work_event import WorkEvent, work_event
from topology.ordered_commit import Grant, WaitAndCommit

if TYPE_CHECKING:
    from topology.faust.worker.ordered.ordered_runner import OrderedRunner

logger = get_logger(__name__)

BREATH = 0.01
"""Seconds that a worker may go on without awaiting anything, before others have their turn."""
UNSTARTED = TableError, ProcessNotStarted, DatabaseAway, BehindOlder
"""What an event is not to blame for."""
RELEASED = 500
"""Parked events of a stream that one unit lets go."""


@dataclass(slots=True)
class Attempt:
    """An attempt in work. task: the worker's, where it can be cancelled."""

    events: Sequence[WorkEvent]
    task: "asyncio.Task[Any] | None"
    process: OwnProcess | None = None


class Workers:
    """As many tasks as the view has workers; handlers run in them, or a thread or process each."""

    def __init__(self, runner: "OrderedRunner") -> None:
        stage = runner.stage
        self._runner = runner
        self._core = runner.core
        self._view = stage.view
        self._work = stage.work
        self._prefix = f"{stage.view.topology}.{stage.view.name}"
        self._attempts: dict[int, Attempt] = {}
        self._idle: deque[asyncio.Future[Grant]] = deque()
        self._settling = Settling(runner)
        self.ending = False
        """Set to end each worker behind its attempt, whatever that makes of being cancelled."""
        self._threaded: set[int] = set()
        """Attempts in threads that go on after their worker was cancelled."""
        older = stage.work.rules.when_older_is_open
        by_keys = isinstance(older, WaitAndCommit) and older.critical is None
        # What SQL reads and writes is not known: all of such a view is critical.
        unknown = stage.work.touches is not None or stage.work.database is not None
        self._learns = by_keys and not unknown
        self._threads: HandlerThreads | None = None
        if stage.work.run_in == "threads":
            self._threads = HandlerThreads(stage.work.workers, f"sequitur {stage.view.name}")
        self._home = home_of(stage.view) if stage.work.run_in == "processes" else None
        self._processes: dict[asyncio.Task[Any], OwnProcess] = {}
        self._starting = asyncio.Semaphore(os.cpu_count() or 1)

    def tasks(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What each worker does, without end."""
        return [self._run() for _ in range(self._work.workers)]

    async def close(self) -> None:
        """Begin nothing more; a thread that is in a handler ends by itself, a process now."""
        if self._threads is not None:
            self._threads.close()
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            await process.ended()

    def wake(self) -> None:
        """Give what may be begun to the workers that wait."""
        idle, now = self._idle, time.monotonic()
        while idle:
            if idle[0].done():
                idle.popleft()
                continue
            grant = self._core.next(now)
            if grant is None:
                return
            idle.popleft().set_result(grant)

    def hurry(self, grant: Grant) -> None:
        """Tell an attempt that later events wait for it."""
        attempt = self._attempts.get(grant.number)
        if attempt is None:
            return
        for event in attempt.events:
            event.hurry.set()
        if attempt.process is not None:
            attempt.process.hurry(grant.number)

    def cancel(self, grant: Grant) -> None:
        """End an attempt, if that can be done; a thread's goes on, and its effects are dropped."""
        attempt = self._attempts.get(grant.number)
        if attempt is None:
            return
        if attempt.task is not None:
            attempt.task.cancel()
            return
        logger.warning(
            "view %s: the attempt at offset %d is rolled back after %.1f s, but its thread cannot "
            "be ended: it keeps a worker of %d, and what comes after it waits, until it returns",
            self._view.name, grant.offset, time.monotonic() - grant.started, self._work.workers,
        )  # fmt: skip

    def forget(self, offset: int) -> None:
        """An event is done."""
        self._settling.forget(offset)

    # -- one worker

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        breath = time.monotonic()
        while not self.ending:
            if (now := time.monotonic()) > breath + BREATH:
                await asyncio.sleep(0)
                breath = now = time.monotonic()
            if self._home is not None:
                # Before the time of an attempt begins.
                await self._own_process(task, self._home)
            grant = self._core.next(now)
            if grant is None:
                grant = await self._next_grant()
            try:
                await self._attempt(grant, task)
            except BaseException:
                # Nobody must wait for it, in this run or in a later one; for a thread one must.
                if grant.number not in self._threaded:
                    self._runner.ended(grant)
                raise
            while task.cancelling() and not self.ending:
                # However the attempt has ended, the next one is not cancelled; also not by what
                # this one has not come to any more.
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)
                task.uncancel()
            # What this one has ended may let others begin.
            self.wake()

    async def _own_process(self, task: "asyncio.Task[Any]", home: str) -> OwnProcess:
        """The worker's process; another one, if it has none that is alive."""
        process = self._processes.get(task)
        if process is None or not process.alive:
            if process is not None:
                process.kill()
            async with self._starting:
                process = await OwnProcess.started(home, self._view.name)
            self._processes[task] = process
        return process

    async def _next_grant(self) -> Grant:
        free: asyncio.Future[Grant] = asyncio.get_running_loop().create_future()
        self._idle.append(free)
        try:
            return await free
        except asyncio.CancelledError:
            if free.done() and not free.cancelled():
                self._runner.ended(free.result())
            raise

    async def _attempt(self, grant: Grant, task: "asyncio.Task[Any]") -> None:
        runner = self._runner
        event = runner.event(grant.offset)
        batch = [event]
        if len(grant.events) > 1:
            batch = [runner.event(each.offset) for each in grant.events]
            if not all(map(self._is_handled, batch)):
                self._core.split(grant, time.monotonic())
                return
        if runner.compensations is not None and (
            runner.compensations.owes(grant.offset) or self._lets_go_what_is_owed(event)
        ):
            self._core.retry(grant, OWED, time.monotonic(), anew=False)
            return
        if (made := runner.committed_in_sql(grant)) is not None:
            self._settling.drop_refused(event, made)
            runner.finished(grant, None, runner.effects.stage(grant, made))
            return
        if isinstance(event, Malformed):
            self._settling.pass_malformed(grant, event)
            return
        if isinstance(event, Event) and runner.effects.parked(event.stream):
            staged = Staged(event, runner.unit())
            runner.finished(grant, None, runner.effects.park(grant, staged))
            return
        if grant.settle:
            times = self._work.rules.rollbacks
            self._settling.settle(grant, event, HandlerError(f"it was rolled back {times} times"))
            return
        in_tasks, touched = self._threads is None, None
        self._attempts[grant.number] = Attempt((), task if in_tasks else None)
        try:
            if isinstance(event, Release):
                staged = await self._release(grant, event)
            else:
                events = [each for each in batch if isinstance(each, Event)]
                states = self._states(events)
                began = time.perf_counter()
                items = await self._handled(grant, events, states)
                if runner.handled is not None:
                    runner.handled(time.perf_counter() - began)
                if len(events) > 1:
                    staged = runner.effects.made_of_batch(events, items, states, wall())
                else:
                    staged = runner.effects.made(event, items[0], states[event.stream], wall())
                    if runner.stage.stream(event) is None:
                        # As a message without a key is no stream.
                        staged.state = None
                    if self._learns:
                        touched = touched_keys(event, items[0], stateful=self._view.stateful)
            if runner.compensations is not None:
                runner.compensations.put(grant, staged)
            if runner.lent is not None:
                runner.lent.check(grant)
            size = runner.effects.stage(grant, staged)
        except BaseException as raised:
            error = raised if runner.lent is None else runner.lent.cause(grant, raised)
            if in_tasks or grant.number not in self._threaded:
                runner.give_up(grant)
            cancelled = isinstance(error, asyncio.CancelledError | GeneratorExit)
            # A handler that cancels itself has failed.
            if cancelled and task.cancelling() and not self._core.counts_still(grant):
                if runner.loop.stopping:
                    raise
                if in_tasks:
                    runner.ended(grant)
            elif isinstance(error, TableError | ProcessNotStarted):
                raise
            else:
                self._settling.failed(grant, event, error)
            return
        finally:
            del self._attempts[grant.number]
        runner.finished(grant, touched, size)

    def _lets_go_what_is_owed(self, event: Event | Release | Malformed) -> bool:
        """Whether a parked event that would be handled now has compensations that are not done."""
        runner = self._runner
        assert runner.compensations is not None
        if not isinstance(event, Release) or event.dropped:
            return False
        if not (owed := runner.compensations.keys_owed()):
            return False
        waiting = runner.effects.parked_events(event.stream, RELEASED)
        keys = (work_event(each, self._prefix, None).idempotency_key for _, each, _ in waiting)
        return not owed.isdisjoint(keys)

    def _is_handled(self, event: Event | Release | Malformed) -> bool:
        """Whether the handler is called for it, as for each event of a batch."""
        return isinstance(event, Event) and not self._runner.effects.parked(event.stream)

    def _states(self, events: Iterable[Event]) -> dict[str, dict[str, Any]]:
        """The states of the streams. A message without a key is no stream, and leaves none."""
        effects, stage, stateful = self._runner.effects, self._runner.stage, self._view.stateful
        return {
            event.stream: effects.state_of(event.stream)
            if stateful and stage.stream(event) is not None
            else {}
            for event in events
        }

    async def _handled(
        self, grant: Grant, events: Sequence[Event], states: dict[str, dict[str, Any]]
    ) -> list[list[Any]]:
        """What the handler yields for each event; it may change the states."""
        attempt = self._attempts[grant.number]
        if self._home is not None:
            assert attempt.task is not None
            attempt.process = await self._own_process(attempt.task, self._home)
            if grant.hurried:
                attempt.process.hurry(grant.number)
            return await attempt.process.handle(grant.number, events, states)
        services = None
        if self._work.run_in == "pulled":
            self._core.begins(grant, None)
        if self._work.database or self._work.compensations or self._work.run_in == "pulled":
            loop = asyncio.get_running_loop() if self._threads is not None else None
            services = AttemptServices(self._runner, grant, loop)
        made = [work_event(event, self._prefix, services) for event in events]
        if services is not None:
            services.key = made[0].idempotency_key
        for event in made if grant.hurried else ():
            event.hurry.set()
        attempt.events = made
        given: Any = made if self._work.batch else made[0]
        arguments = (given, *self._runner.stage.state_given(states, events))
        items = await self._called(grant, arguments)
        return by_event(made, items) if self._work.batch else [items]

    async def _called(self, grant: Grant, arguments: tuple[Any, ...]) -> list[Any]:
        if self._threads is not None:
            return await self._in_thread(grant, arguments)
        result = self._view.handler(*arguments)
        if hasattr(result, "__aiter__"):
            return await acollected(result)
        return collected(await result or ())

    async def _release(self, grant: Grant, release: Release) -> Staged:
        """Handle what is set aside of a stream, until one of it fails again, or there is more than
        one unit should have: then it goes on with another one."""
        effects, stream = self._runner.effects, release.stream
        # What is dropped is not handled, and what comes behind it is to stay.
        most = ALL if release.dropped else RELEASED
        waiting = effects.parked_events(stream, most + 1) if effects.parked(stream) else []
        more, waiting = len(waiting) > most, waiting[:most]
        unit, state = self._runner.unit(), effects.state_of(stream)
        nobody = Event(stream, 0, None, None, self._runner.records[grant.offset])
        whole, goes_on = Staged(nobody, unit), effects.goes_on(stream)
        if release.dropped and waiting and not release.forced:
            logger.error(
                "view %s: stream %s is not dropped: %d parked events would be lost; force it if "
                "that is meant", self._view.name, printable(stream), len(waiting),
            )  # fmt: skip
            return whole
        if release.dropped:
            effects.begin_anew(whole)
        for key, event, unreadable in waiting:
            if not self._core.counts_still(grant):
                raise HandlerError("it was rolled back")
            if release.dropped:
                bury(self._view, event, f"its stream was dropped{AT_WORKERS}", unit)
                whole.dead += 1
            elif release.without_first and not whole.rows and not goes_on:
                bury(self._view, event, f"its stream was unparked without it{AT_WORKERS}", unit)
                whole.dead += 1
                if self._view.stateful and self._view.closed_by(event):
                    state, whole.state = {}, b"{}"
            elif unreadable:
                malformed(self._view, event.message, unit, Malformed(unreadable), unit.now)
            else:
                lent, compensations = self._runner.lent, self._runner.compensations
                intended = 0 if compensations is None else compensations.intended(grant)
                back = None if lent is None else await lent.savepoint(grant)
                # The limit is of each of them, of which there may be many.
                self._core.begins(grant, time.monotonic())
                try:
                    # A process of one's own puts another dictionary in this one's place.
                    states = {stream: state}
                    (items,) = await self._handled(grant, [event], states)
                    state = states[stream]
                    made = effects.made(event, items, state, wall())
                except BaseException as raised:
                    error = raised if lent is None else lent.cause(grant, raised)
                    unstarted = isinstance(error, UNSTARTED)
                    if unstarted or not self._core.counts_still(grant):
                        raise
                    if back is not None:
                        await back()
                    if compensations is not None:
                        compensations.owe(grant, intended)
                    log_failure(self._view, event, error, "park", unit)
                    effects.go_on(whole, False)
                    return whole
                effects.merge(made.unit, unit)
                whole.state = made.state
            whole.event = event
            whole.rows.append((key, None))
        if more:
            # Behind what has arrived by now, which is set aside too; so one unit does not do all.
            tell_workers(self._view, stream, b"redrive", unit)
            effects.go_on(whole, True)
            return whole
        if waiting:
            whole.parks = False
        effects.go_on(whole, False)
        return whole

    async def _in_thread(self, grant: Grant, arguments: tuple[Any, ...]) -> list[Any]:
        """What a plain handler yields. If the worker is cancelled, the thread still ends it."""
        handler, runner, loop = self._view.handler, self._runner, asyncio.get_running_loop()
        assert self._threads is not None

        running = self._threads.submit(lambda: collected(handler(*arguments) or ()))
        result = asyncio.wrap_future(running)
        # What it raises once nobody waits for it any more is nothing to tell anybody.
        result.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            self._threaded.add(grant.number)
            running.add_done_callback(lambda _: loop.call_soon_threadsafe(runner.ended, grant))
            raise
