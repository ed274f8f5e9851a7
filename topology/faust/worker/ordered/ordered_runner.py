"""Runs a partition whose events are handled side by side: reads, grants, commits, in one loop."""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Sequence

from aiokafka import TopicPartition
from mode import get_logger

from topology.declaration.ordered_stage import OrderedStage, Release
from topology.engine.commit_unit import CommitUnit
from topology.engine.durable_effects import decode_staged, deleted_rows, encode_staged
from topology.engine.partition import Step
from topology.engine.staged_effects import Staged, StagedEffects
from topology.engine.state.rows import HOLES, encode_holes
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.context import WorkerContext
from topology.faust.worker.ordered.compensations import Compensations
from topology.faust.worker.ordered.lease import OVER, RolledBack
from topology.faust.worker.ordered.lent_connections import LentConnections
from topology.faust.worker.ordered.stage_status import StageStatus
from topology.faust.worker.ordered.workers import Workers
from topology.faust.worker.runner import STOP, Runner
from topology.faust.worker.writing.writer import BATCH_BYTES, Writer
from topology.model.ending import wait_for_stop
from topology.model.errors import Malformed, described
from topology.model.event import Event, Message
from topology.model.large import size_of_message
from topology.model.partition_table import PartitionTable, Row
from topology.ordered_commit import Actions, Grant, OffsetRanges, OrderedCommit, Touched

logger = get_logger(__name__)

IDLE = 0.5
"""Seconds that a fetch waits for records."""
TICK = 0.05
"""The most seconds between two looks at what is due."""
SOON = 0.002
"""The least."""
ONE_BATCH = BATCH_BYTES // 2
"""Bytes of a unit's events and effects, at least once: their rows fit into one record batch."""
MARKERS = 1
"""Offsets that a transaction takes without a message: no retention deletes as few."""
LINGER = 0.005
"""Seconds from one unit to the next while there is work."""


class OrderedStep(Step):
    """What the runner's commits need to know: which table rows go to."""

    def __init__(self, table: PartitionTable) -> None:
        self._table = table

    def table(self, name: str) -> PartitionTable:
        return self._table


class OrderedRunner(Runner):
    """Reads a partition, has its events handled side by side, and commits them at their turn.

    One task reads, one commits, one looks at the time, and the workers handle. All of them are on
    one loop, so that what they tell the core comes in one order. Handlers in threads touch nothing
    but their event.
    """

    def __init__(
        self,
        source: TopicPartition,
        stage: OrderedStage,
        writer: Writer,
        context: WorkerContext,
        core: OrderedCommit,
        effects: StagedEffects,
        table: PartitionTable,
        lent: LentConnections | None = None,
    ) -> None:
        refusals = context.refusals(source, {stage.view.name: stage.view})
        super().__init__(
            source, OrderedStep(table), writer, context.shared_reader, core.position,
            refusals=refusals,
        )  # fmt: skip
        self.stage = stage
        self.core = core
        self._reader = context.shared_reader
        self.effects = effects
        self.lent = lent
        if lent is not None:
            lent.counts, lent.give_way = core.counts_still, self._give_way
            lent.losses = context.losses.setdefault(source, {})
        self.compensations: Compensations | None = None
        if stage.work.compensations:
            settled = set[bytes]().union(
                *map(deleted_rows, lent.committed.values() if lent else ())
            )
            self.compensations = Compensations(self, settled, context.undoing)
        self._waiting_asides: list[asyncio.Future[None]] = []
        self.workers = Workers(self)
        self.events: dict[int, Event | Release | Malformed] = {}
        """What is in hand, by its offset in the partition."""
        self._used: set[int] = set()
        """Offsets of events that an attempt has had which came to nothing."""
        self.records: dict[int, Message] = {}
        self.asides = CommitUnit(*source)
        """What is to be made durable with the next turn, whosever it is: lines of error logs."""
        away = (lambda: None) if lent is None else (lambda: lent.away)
        self.status = StageStatus(stage, table, core, context.orders, away)
        self._running = context.running
        self.handled: Callable[[float], None] | None = None
        """Is told the seconds of each call of the handler."""
        if context.timings is not None:
            self.handled = context.timings.handlers(stage.view.name)
        # Without a transaction it is the batch that makes states and offsets durable together.
        self._most = math.inf if context.producer is None else ONE_BATCH
        self._finished = asyncio.Event()
        self._room = asyncio.Event()
        self._committed_to = core.position
        self._committing = False
        self._read_to = core.position
        self._unit = asyncio.Lock()
        """Held by who makes a unit durable."""

    @property
    def position(self) -> int:
        return self.core.position

    async def run(self) -> None:
        self._input.seek(self.core.position)
        if self.compensations is not None:
            self.compensations.start()
        work = (self._read(), self._commit_turns(), self._watch_time(), *self.workers.tasks())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            raise ConnectionError("a task of the partition has ended")
        finally:
            self.loop.stopping = self.workers.ending = True
            self.core.revoke()
            if self.compensations is not None:
                # The next run calls them: this one could make nothing of it durable.
                self.compensations.close()
            for waiting in self._waiting_asides:
                if not waiting.done():
                    # A thread waits for it, which nobody can cancel.
                    waiting.set_exception(RolledBack(OVER))
                    waiting.exception()
            for task in tasks:
                task.cancel()
            # Handlers that do not heed this are waited for by the next run of their streams.
            await asyncio.wait(tasks, timeout=STOP)
            await self.workers.close()
            if self.lent is not None:
                await self.lent.close()

    # -- reading

    async def _read(self) -> None:
        core = self.core
        while True:
            if not core.room:
                logger.info(
                    "%s: reading pauses, %d events are in hand; it has paused %d times",
                    self.source, core.in_hand, core.counts.paused,
                )  # fmt: skip
                self._room.clear()
                await self._room.wait()
                continue
            records = await self._input.fetch(IDLE)
            position = await self._input.position()
            if (again := records[0].offset if records else position) < self._read_to:
                self.log_truncated(self._read_to, again)
                await self._begin_anew(again)
            if again > self._read_to + MARKERS:
                await self._count_lost(again)
            self._read_to = position
            now = time.monotonic()
            for record in records:
                self._arrive(record, now)
            core.reached(position)
            if not core.in_hand and core.position > self._committed_to:
                self._finished.set()
            self.workers.wake()

    async def _count_lost(self, come: int) -> None:
        """Offsets up to the one that came are not there: markers, compacted, or deleted unread."""
        first = min(await self._reader.first(self.source), come)
        if first > self._read_to and (lost := self.core.lost(self._read_to, first)):
            logger.error(
                "%s: %d offsets from %d on were deleted by retention before they were read",
                self.source, lost, self._read_to,
            )  # fmt: skip

    def _arrive(self, record: Message, now: float) -> None:
        core, stage = self.core, self.stage
        stream: str | None = None
        touches: Touched | None = None
        try:
            event: Event | Release | Malformed = stage.event(record)
            if isinstance(event, Release):
                stream, kind = event.stream, ""
            elif isinstance(event, Event):
                stream, kind = stage.stream(event), event.kind or ""
                touches = self._touches(event)
        except Malformed as error:
            event, kind = error, ""
        if core.arrive(record.offset, stream, kind, size_of_message(record), now, touches):
            self.events[record.offset] = event
            if not isinstance(event, Event):
                self.records[record.offset] = record

    def _touches(self, event: Event) -> Touched | None:
        """The keys that an event is declared to touch; None, for all, where that is not known."""
        if (touches := self.stage.work.touches) is None:
            return None
        try:
            found = touches(event)
            if isinstance(found, Touched):
                found = found.checked()
        except BaseException as error:  # nobody cancels a plain function
            found = described(error)  # type: ignore[assignment]
        if found is not None and not isinstance(found, Touched):
            self.asides.reports.append(
                f"view {self.stage.view.name}: touches= is to return a Touched, or None; for "
                f"stream {event.stream} sequence {event.sequence} it returned {found!r}"
            )
            return None
        return found

    # -- time

    async def _watch_time(self) -> None:
        while True:
            now = time.monotonic()
            due = self.core.due - now
            await asyncio.sleep(min(TICK, max(SOON, due)))
            if due <= TICK:
                self.act(self.core.poll(time.monotonic()))
                # Some may have been let past an older one.
                self._finished.set()
            if self.status.look(now):
                self._finished.set()
            # Also for an attempt of an earlier run, whose end nobody here is told of.
            self.workers.wake()

    def act(self, actions: Actions) -> None:
        """Hurry, roll back and cancel what the core says."""
        for grant in actions.hurry:
            self.workers.hurry(grant)
        for grant in actions.roll_back:
            self.effects.drop(grant)
            self.give_up(grant, ended=grant not in actions.cancel)
        for grant in actions.cancel:
            self.workers.cancel(grant)

    def _give_way(self, holder: Grant, older: Grant) -> None:
        self.act(self.core.give_way(holder, older, time.monotonic()))
        self.workers.wake()

    def give_up(self, grant: Grant, *, ended: bool = True) -> None:
        """Undo what an attempt did besides staging. ended: it can do nothing more outside."""
        self._used.update(event.offset for event in grant.events if event.offset in self.events)
        if self.lent is not None:
            self.lent.release(grant)
        if self.compensations is not None and ended:
            self.compensations.owe(grant)

    def event(self, offset: int) -> Event | Release | Malformed:
        """What is in hand, as it was before a handler had it, which may have changed it."""
        found = self.events[offset]
        if offset in self._used and isinstance(found, Event):
            self._used.discard(offset)
            found = self.events[offset] = self.stage.renewed(found)
        return found

    # -- turns

    def unit(self) -> CommitUnit:
        """A unit for effects that no handler has yielded."""
        topic, partition = self.source
        return CommitUnit(topic, partition, now=wall())

    def finished(self, grant: Grant, touched: Touched | None, size: int) -> None:
        """Effects are staged: they are committed at their turn, if the grant is not old."""
        if self.core.finished(grant, touched, size, time.monotonic()):
            self._finished.set()
        else:
            self.effects.drop(grant)
            self.ended(grant)

    def turns_changed(self) -> None:
        """There is something to be made durable, which no attempt has staged."""
        self._finished.set()

    def ended(self, grant: Grant) -> None:
        """An attempt that was given up has ended: its stream may go on, in this run or a later."""
        now = time.monotonic()
        self.give_up(grant)
        self.core.ended(grant, now)
        latest = self._running.get(self.source)
        if latest is not None and latest is not self.core:
            latest.ended(grant, now)
        self._let_go()

    def _let_go(self) -> None:
        """Once it is revoked, nobody but the attempts that still run need the core."""
        core = self.core
        if core.revoked and not core.still_running and self._running.get(self.source) is core:
            del self._running[self.source]

    async def _commit_turns(self) -> None:
        while True:
            await self._finished.wait()
            self._finished.clear()
            async with self._unit:
                if not await self._commit_turn():
                    continue
            # What came meanwhile may already have its turn.
            self._finished.set()
            if self.core.room:
                self._room.set()
            self.workers.wake()
            if self.core.in_hand:
                # A unit of more events costs the others less than several of few.
                await asyncio.sleep(LINGER)

    async def _commit_turn(self) -> bool:
        """Make durable whose turn it is; False if there is nothing."""
        core = self.core
        turns = core.take_commits(time.monotonic(), self._most)
        position, done = core.progress()
        nothing = position <= self._committed_to and not self.asides and not self.status.due
        if not turns and nothing:
            return False
        if self.lent is not None and not await self._commit_sql(self.lent, turns):
            return True
        unit, self.asides = self.asides, CommitUnit(*self.source)
        unit.now = wall()
        self.effects.put(turns, unit)
        unit.next_offset = position
        told = self._waiting_asides.copy()
        written = self._outputs(unit) if self.stage.arrivals else 0
        given_up = self.effects.given_up(turns)
        self.status.count(*given_up, unit.unrouted, unit.malformed, written)
        rows = [(HOLES, encode_holes(position, done)), *self.status.rows(time.monotonic())]
        unit.rows.setdefault(self.stage.name, []).extend(rows)
        self._committing = True
        await self.commit(unit)
        self._committing = False
        self._committed_to = position
        core.committed(time.monotonic())
        self.effects.committed(turns)
        del self._waiting_asides[: len(told)]
        for future in told:
            if not future.done():
                future.set_result(None)
        for grant in turns:
            if self.compensations is not None:
                self.compensations.committed(grant)
        if self.lent is not None:
            self.lent.passed(turns)
        self._forget(turns)
        return True

    def _outputs(self, unit: CommitUnit) -> int:
        """How many records of a unit are of the view's output."""
        output = self.stage.view.output
        return len(unit.colocated.get(output, ())) + len(unit.keyed.get(output, ()))

    async def _commit_sql(self, lent: LentConnections, turns: Sequence[Grant]) -> bool:
        """Commit in the database what is next committed in Kafka; False if one is refused."""
        self._committing = True
        failed = await lent.commit(turns, self._encoded)
        self._committing = False
        if failed is not None:
            now, counts = time.monotonic(), not failed.away
            fallen = self.core.commit_failed(now, failed.grant, counts=counts)
            self.act(Actions(roll_back=fallen))
        return failed is None

    def _encoded(self, grant: Grant) -> bytes:
        return encode_staged(self.effects.of(grant), self._message(grant.offset))

    def _message(self, offset: int) -> Message:
        event = self.events[offset]
        return event.message if isinstance(event, Event) else self.records[offset]

    def committed_in_sql(self, grant: Grant) -> Staged | None:
        """What an event has put out whose SQL is committed, though Kafka has not got it yet."""
        raw = None if self.lent is None else self.lent.committed.get(grant.offset)
        if raw is None:
            return None
        staged = decode_staged(raw, self._message(grant.offset), self.unit())
        if staged is None:
            assert self.lent is not None
            self.lent.passed([grant])  # the log was made anew: this is another event
        return staged

    def put_aside(self, rows: Sequence[Row]) -> None:
        """Make rows durable with the next unit."""
        self.asides.rows.setdefault(self.stage.name, []).extend(rows)
        self.turns_changed()

    async def durable(self, rows: Sequence[Row]) -> None:
        """Make rows durable, and wait for that."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_asides.append(future)
        self.put_aside(rows)
        await future

    async def _begin_anew(self, position: int) -> None:
        """Nothing in hand is of the log that is there now: make it durable that it begins there."""
        self.core.revoke()
        # For good: no other unit follows.
        await self._unit.acquire()
        if self.lent is not None:
            await self.lent.forget_log()
        unit = self.unit()
        unit.next_offset = position
        unit.rows[self.stage.name] = [(HOLES, encode_holes(position, OffsetRanges()))]
        await self.commit(unit)
        raise ConnectionError(f"the log of {self.stage.topic} begins anew")

    def _forget(self, turns: Iterable[Grant]) -> None:
        for grant in turns:
            for event in grant.events:
                del self.events[event.offset]
                self._used.discard(event.offset)
                self.workers.forget(event.offset)
                self.records.pop(event.offset, None)

    # -- the end

    async def stop(self, grace: float) -> None:
        """Finish the unit in hand within `grace` seconds, else drop it; cancel the attempts."""
        self.loop.stopping = True
        self.core.revoke()
        until = time.monotonic() + grace
        while self._committing and time.monotonic() < until and not self._is_done():
            await asyncio.sleep(SOON)
        task = self.task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=2 * STOP)
        self._input.pause()
        self._let_go()
        logger.info("%s stops: %s", self.source, self.core.counts)
        if self.lent is not None:
            await self.lent.close()  # also of a runner that never ran
        await wait_for_stop(self.writer.stop())

    def _is_done(self) -> bool:
        return self.task is None or self.task.done()
