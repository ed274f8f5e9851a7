"""A worker as one process of a router: it agrees with the others on the rules that route.

The log of a stage is partition 0 of its control topic, which all read from its beginning. Each
process writes heartbeats to partition 1; who misses them says that a process left.
"""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from mode import get_logger

from topology.declaration.route import Route
from topology.engine.intake import IntakeCounts
from topology.faust.kafka.clients import connected_consumer
from topology.faust.worker.handler_threads import HandlerThreads
from topology.faust.worker.routing.rule_loading import load_rules
from topology.faust.worker.routing.rule_rates import RuleRates
from topology.faust.worker.routing.trail_log import TrailLog
from topology.faust.worker.writing.control_writer import BEATS, LOG, ControlWriter
from topology.model.ending import end_tasks, wait_for_stop
from topology.model.errors import DeclarationError
from topology.model.printable import printable
from topology.routing import (
    ControlRecord,
    Joined,
    Left,
    Load,
    Member,
    Propose,
    Release,
    RuleSet,
    Unregister,
    decode_control,
)

logger = get_logger(__name__)

RETRY = 5.0
"""Seconds before something that failed is tried again."""


class RouterProcess:
    """Follows a stage's control topic, and loads what it asks for.

    Args:
        app: the worker's; of another process, the arguments of aiokafka's clients.
        route: the stage, which has `reload`.
        expiry: seconds without a heartbeat after which a process is said to have left.
        crash: is told of what it cannot go on with; default: the app is.
    """

    def __init__(
        self,
        app: Any,
        route: Route,
        expiry: float,
        crash: Callable[[Exception], Awaitable[None]] | None = None,
    ) -> None:
        self._app, self._route, self._expiry = app, route, expiry
        self._crash = app.crash if crash is None else crash
        self.member = Member(f"{socket.gethostname()}/{os.getpid()}/{uuid4().hex[:8]}")
        self.trails = TrailLog(route)
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._loading: tuple[Load, asyncio.Task[None]] | None = None
        self._threads = HandlerThreads(4, f"sequitur {route.name} tables")
        self._writer = ControlWriter(app, route.control, self.member.process)
        self.releases: list[Release] = []
        """What parked streams were to be let go, in order."""
        self._heard: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self.counted: dict[tuple[str, int], IntakeCounts] = {}
        self._rates = RuleRates()
        self.read = 0
        """Up to which offset of the log."""
        self._above = 0
        self._told: str | None = None
        self._differs = False

    def start(self) -> None:
        """Begin to follow, once."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"sequitur {self._route.control}")

    async def stop(self) -> None:
        """Leave, and follow no longer."""
        task, self._task = self._task, None
        self._threads.close()
        if task is not None:
            await end_tasks(task, *([self._loading[1]] if self._loading else []))
        await self._writer.stop()

    async def rules_for(self, topic: str, version: int) -> RuleSet:
        """The rules for a partition's next messages, as soon as there are some.

        Args:
            topic: the source topic.
            version: that its position was committed with.
        """
        while (rules := self.member.rules_for(topic, version)) is None:
            try:
                async with asyncio.timeout(RETRY):
                    await self._changed.wait()
            except TimeoutError:  # by now the log would say if there were that version
                self._above = max(self._above, version)
        return rules

    # -- the log

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except (KafkaError, OSError) as error:
                logger.warning("%s cannot be used for now: %r", self._route.control, error)
                await asyncio.sleep(RETRY)
            except Exception as error:
                logger.error("route %s: its process fails", self._route.name, exc_info=error)
                await self._crash(error)
                return

    async def _follow(self) -> None:
        await self._writer.start()
        log, beats = (TopicPartition(self._route.control, number) for number in (LOG, BEATS))
        consumer = await connected_consumer(self._app, fetch_max_wait_ms=200)
        try:
            consumer.assign([log, beats])
            first = (await consumer.beginning_offsets([log]))[log]
            if first:
                raise DeclarationError(
                    f"topic {log.topic!r} has lost its first {first} records, and with them what "
                    "was agreed on; it is to keep all: delete it while no worker runs, and set no "
                    "retention"
                )
            ends = await consumer.end_offsets([log, beats])
            consumer.seek(log, self.read)
            consumer.seek(beats, ends[beats])
            before = 0.0
            while True:
                found = await consumer.getmany(timeout_ms=500)
                now = asyncio.get_running_loop().time()
                if now - before > self._expiry / 2:  # it was this process that heard nothing
                    self._heard.clear()
                before = now
                anew = False
                for record in found.get(log, ()):
                    anew |= record.offset < self.read
                    self._take(record)
                if anew:
                    ends = await consumer.end_offsets([log])
                for record in found.get(beats, ()):
                    self._heard[(record.key or b"").decode("utf-8", "replace")] = now
                if found.get(log):
                    changed, self._changed = self._changed, asyncio.Event()
                    changed.set()
                if self.read >= ends[log]:
                    await self._act(now)
        finally:
            await wait_for_stop(consumer.stop())

    def _take(self, record: Any) -> None:
        if record.offset < self.read:  # the topic was deleted and made again
            self.member = Member(self.member.process)
            self.releases.clear()
            logger.error("route %s: its control topic was made anew", self._route.name)
        self.read = record.offset + 1
        before = self.member.agreement.version
        try:
            said = decode_control(record.value)
            self.member.read(said)
            if isinstance(said, Release):
                self.releases.append(said)
        except ValueError as error:
            place = record.topic, record.offset
            logger.warning("%s/0/%d is no control record: %s", *place, error)
        at = self.member.agreement
        if at.version != before:
            logger.info("route %s: rules %d are decided", self._route.name, at.version)
        if at.refused != self._told and (refused := at.refused) is not None:
            logger.error("route %s: %s", self._route.name, printable(refused, 600))
        self._told = at.refused

    # -- what this process has to say

    async def _act(self, now: float) -> None:
        """Say what is due: that it joins, lives, misses others, or needs rules."""
        at, me = self.member.agreement, self.member.process
        if self._is_due("beat", now, self._expiry / 5):
            await self._beat()
        if me not in at.processes:
            if self._is_due("join", now, RETRY):
                await self._writer.say(Joined(me))
            return
        for other in at.processes - {me}:
            if now - self._heard.setdefault(other, now) > self._expiry:
                self._heard[other] = now
                logger.warning("route %s: %s is gone", self._route.name, printable(other))
                await self._writer.say(Left(other))
        for endpoint in at.endpoints.values():
            own = endpoint.listening
            if own and now - self._heard.setdefault(own.session, now) > own.lifetime:
                self._heard[own.session] = now
                logger.warning("route %s: listener %s expires", self._route.name, endpoint.name)
                why = f"not heard for {own.lifetime:.0f} s"
                await self._writer.say(Unregister(endpoint.name, me, why, own.session))
        load, proposal = self.member.wanted(), at.proposal
        if load is not None:
            begun = self._loading is not None and self._loading[0] == load
            if not begun and (proposal is not None or self._is_due("load", now, RETRY)):
                self._loading = load, asyncio.create_task(self._load(load))
        elif proposal is not None and self._is_due("loaded", now, RETRY):
            # The log may have it from before it joined.
            await self._writer.say(self.member.answer())
        if proposal is None and (self._differs or at.version < max(1, self._above)):
            why = "tables differ from the decided ones" if self._differs else "there are no rules"
            if self._is_due("propose", now, RETRY):
                self._differs = False
                await self._writer.say(Propose(above=self._above, who=me, why=why))

    def _is_due(self, what: str, now: float, every: float) -> bool:
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every
        return True

    async def _beat(self) -> None:
        rules = self.member.current
        said = {
            "version": 0 if rules is None else rules.number,
            "paused": sorted(self.member.paused()),
            "period": self._expiry / 5,
            "trails_dropped": self.trails.dropped,
            "counts": {
                f"{topic}/{number}": (each.read, each.unknown, each.malformed)
                for (topic, number), each in self.counted.items()
            },
            "rules": {} if rules is None else self._rates.of(rules, time.monotonic()),
        }
        await self._writer.beat(said)

    # -- loading

    async def _load(self, load: Load) -> None:
        """Load off the event loop, and say what came of it."""
        before = None if load.fresh else self.member.current
        answer: ControlRecord | None
        try:
            rules = await load_rules(self._threads, self._route, load, before)
        except Exception as error:
            answer = self._failed(load, f"{type(error).__name__}: {error}")
        else:
            try:
                answer = self.member.loaded(rules)
            except DeclarationError as error:
                logger.error("route %s: %s", self._route.name, printable(error, 300))
                answer, self._differs = None, True
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        try:
            await self._writer.say(answer)
        except KafkaError as error:
            logger.warning("route %s: it is said again soon: %r", self._route.name, error)
        finally:
            if self._loading is not None and self._loading[0] == load:
                self._loading = None

    def _failed(self, load: Load, reason: str) -> ControlRecord | None:
        name, shown = self._route.name, printable(reason, 300)
        logger.error("route %s: rules %d cannot be loaded: %s", name, load.version, shown)
        return self.member.failed(load.version, reason)
