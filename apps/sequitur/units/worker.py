"""A topology that consumes a destination of units: the handler of one of its `parallel` stages.

A handler works on one message of a unit, and the rest of the unit waits for it. What it yields is
sent by the unit's owner, in the transaction that completes the message. If it fails, or the owner
refuses what it sends, nothing is sent and the message is rolled back: it comes again before its
followers, until the redelivery limit poisons its unit.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any

from stores.units import DeliveryLost, OutgoingMessage, UnitConsumer, UnitDelivery, UnitError
from stores.units.kafka.records import key_of, read_headers
from stores.units.kafka.topics import prepare
from topology import DeclarationError, HandlerError, Topology
from topology.declaration.ordered_stage import OrderedStage
from topology.declaration.policies.error import Advance
from topology.engine.commit_unit import CommitUnit, Out
from topology.engine.output.handling import Handling
from topology.faust.worker.handler_threads import HandlerThreads
from topology.model.changes import acollected, collected
from topology.model.ending import end_tasks
from topology.model.event import Event, Record
from topology.model.printable import printable
from topology.model.work_event import work_event
from topology.ordered_commit import CommitRules

logger = logging.getLogger(__name__)

SESSIONS = 32
"""Sessions of a process, at most: each has a connection with every owner."""


def stage_for_units(topology: Topology, name: str) -> OrderedStage:
    """The `parallel` stage of a name, if its messages may come from units.

    Raises:
        DeclarationError: there is none, or it asks for what units do otherwise or cannot do.
    """
    stages = {each.name: each for each in topology.stages if not each.arrivals}
    if (stage := stages.get(name)) is None:
        there = f"there are {sorted(stages)}" if stages else "it has none"
        raise DeclarationError(f"topology {topology.name!r} has no parallel({name!r}): {there}")
    view, work = stage.view, stage.work
    faults = {
        "its handler takes a state, but the next message of a unit may go to any process; make it "
        "handler(event), and keep the state in SQL": view.stateful,
        "units have an order of their own; leave out all options of the order but workers, "
        "time_limit and run_in='tasks' or 'threads'": replace(work.rules, time_limit=None)
        != CommitRules()
        or work.touches is not None
        or work.run_in not in ("tasks", "threads"),
        "the unit servers say what becomes of failed messages; leave error out, and see their "
        "--redelivery-limit and --poisoned": type(view.error) is not Advance,
    }
    for fault, is_so in faults.items():
        if is_so:
            raise DeclarationError(f"parallel({name!r}): {fault}")
    return stage


class UnitWorkers:
    """Sessions that handle the messages of the stage's topic, unit by unit.

    stage: of `stage_for_units`. group: the subscriber. more: arguments of each `UnitConsumer`.
    """

    def __init__(
        self, stage: OrderedStage, group: str, kafka: Mapping[str, Any], token: str, **more: Any
    ) -> None:
        self._stage, self._kafka = stage, kafka
        self._name = f"{stage.view.topology}.{stage.view.name}"
        self._consumers = [
            UnitConsumer(stage.topic, group, kafka, token, mode="transacted", **more)
            for _ in range(min(stage.work.workers, SESSIONS))
        ]
        # As many again may run on, as no thread can be ended.
        self._threads = HandlerThreads(2 * len(self._consumers), "unit worker")
        self._left: set[Future[Any]] = set()
        """What runs on although its message is another's by now."""

    async def run(self, stopped: asyncio.Event) -> None:
        """Work until told to stop; then return what is not complete. Raises UnitError."""
        await self._check_sequences()
        tasks = [asyncio.create_task(self._run(each)) for each in self._consumers]
        stopping = asyncio.create_task(stopped.wait())
        try:
            await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(stopping, *tasks)
            self._threads.close()
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _check_sequences(self) -> None:
        """Row changes have the offset as their sequence: a unit must not go to another member."""
        if self._stage.view.tables:
            try:
                await prepare(self._kafka, self._stage.topic, "hash")
            except UnitError as error:
                raise UnitError(
                    f"{self._name} cannot write to tables: a read store orders rows by the offsets "
                    f"of one member, but {error}"
                ) from None

    async def _run(self, consumer: UnitConsumer) -> None:
        async with consumer:
            async for delivery in consumer:
                try:
                    async with delivery:  # which is cancelled when it is lost
                        await self._work(consumer, delivery)
                except DeliveryLost as error:
                    logger.warning("%s", error)
                    await consumer.roll_back()

    async def _work(self, consumer: UnitConsumer, delivery: UnitDelivery) -> None:
        try:
            for topic, record in await self._handled(delivery):
                self._send(consumer, topic, record)
            await consumer.commit()
        except DeliveryLost:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            logger.warning(
                "%s: offset %d of member %d failed: %s",
                self._name, delivery.offset, delivery.member, printable(reason, 400),
            )  # fmt: skip
            await consumer.roll_back(reason=reason)
        if len(self._left) >= len(self._consumers):
            raise UnitError(
                f"{self._name}: {len(self._left)} handlers in threads run on, whose messages were"
                " given up: only the end of the process ends them. Look at what they wait for, and"
                " start it again"
            )

    async def _handled(self, delivery: UnitDelivery) -> list[tuple[str, Out]]:
        """Topic and record of all that the handler yields."""
        stage, now = self._stage, int(time.time() * 1000)
        message = Record(
            delivery.destination,
            delivery.member,
            delivery.offset,
            key_of(delivery.unit),
            delivery.value,
            [(name, text.encode()) for name, text in delivery.attributes.items()],
            now,
        )
        event = stage.event(message)
        assert isinstance(event, Event)
        handler, attempt = stage.view.handler, work_event(event, self._name)

        def handle() -> list[Any]:
            try:
                return collected(handler(attempt) or ())
            except StopIteration as error:  # no future can hold one
                raise HandlerError("the handler raised StopIteration") from error

        async with self._time_limit():
            if stage.work.run_in == "threads":
                items = await self._in_thread(partial(copy_context().run, handle))
            else:
                result = handler(attempt)
                many = hasattr(result, "__aiter__")
                items = await acollected(result) if many else collected(await result or ())
        unit = CommitUnit(stage.topic, delivery.member, now=now)
        handling = Handling(stage.view, unit, lambda stream: None)
        handling.write(event, items)
        handling.finish()
        return [
            (topic, record)
            for outputs in (unit.colocated, unit.keyed)
            for topic, records in outputs.items()
            for record in records
        ]

    @asynccontextmanager
    async def _time_limit(self) -> AsyncIterator[None]:
        limit = self._stage.work.rules.time_limit
        try:
            async with asyncio.timeout(limit) as ending:
                yield
        except TimeoutError:
            if not ending.expired():  # it is the handler's own
                raise
            raise HandlerError(f"the handler took longer than time_limit={limit:g} s") from None

    async def _in_thread(self, handle: Callable[[], list[Any]]) -> list[Any]:
        future = self._threads.submit(handle)
        try:
            return await asyncio.wrap_future(future)
        finally:
            if not future.done():
                self._left.add(future)
                future.add_done_callback(self._left.discard)

    def _send(self, consumer: UnitConsumer, topic: str, record: Out) -> None:
        key, value, _, headers = record
        found = read_headers(headers)
        if found.damaged or len({name for name, _ in headers}) < len(headers):
            raise HandlerError(
                f"the message for topic {topic!r} has a header that is no text, or two of one name:"
                " the unit servers send neither"
            )
        message = OutgoingMessage(
            value or b"", found.sort, found.not_before, found.expires, found.attributes
        )
        consumer.send(
            topic, None if value is None else message, found.unit,
            key=None if found.unit is not None else key,
        )  # fmt: skip
