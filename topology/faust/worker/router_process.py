"""A worker as one process of a router: it agrees with the others on the rules that route.

The log of a stage is partition 0 of its control topic, which all read from its beginning. Each
process writes heartbeats to partition 1; who misses them says that a process left.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import orjson
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from mode import get_logger

from topology.declaration.route import Route
from topology.engine.route_task import RouteTask, endpoint_topic
from topology.faust.kafka.clients import connected_consumer, connection
from topology.faust.worker.handler_threads import HandlerThreads
from topology.faust.worker.trail_log import TrailLog
from topology.model.ending import end_tasks, wait_for_stop
from topology.model.errors import DeclarationError
from topology.model.event import Message
from topology.model.printable import printable
from topology.routing import (
    ControlRecord,
    Joined,
    Left,
    Load,
    Member,
    Propose,
    RuleSet,
    Unregister,
    decode_control,
    encode_control,
)

logger = get_logger(__name__)

LOG, BEATS = 0, 1
"""The partitions of a control topic."""
LOAD_LIMIT = 120.0
"""Seconds that the tables may take to load."""
RETRY = 5.0
"""Seconds before something that failed is tried again."""
LEAVE = 2.0
"""Seconds in which a process that ends says so."""


class RouterProcess:
    """Follows a stage's control topic, and loads what it asks for.

    Args:
        app: the worker's.
        route: the stage, which has `reload`.
        expiry: seconds without a heartbeat after which a process is said to have left.
    """

    def __init__(self, app: Any, route: Route, expiry: float) -> None:
        self._app, self._route, self._expiry = app, route, expiry
        self.member = Member(f"{socket.gethostname()}/{os.getpid()}/{uuid4().hex[:8]}")
        self.trails = TrailLog(route)
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._loading: tuple[Load, asyncio.Task[None]] | None = None
        self._threads = HandlerThreads(4, f"sequitur {route.name} tables")
        self._producer: AIOKafkaProducer | None = None
        self._heard: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._read = 0
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
        producer, self._producer = self._producer, None
        if producer is not None:
            me = self.member.process
            try:
                async with asyncio.timeout(LEAVE):
                    await self._send(producer, Left(me))
                    await producer.send_and_wait(self._route.control, None, me.encode(), BEATS)
            except (KafkaError, TimeoutError):
                logger.info("route %s: others will miss this process", self._route.name)
            await wait_for_stop(producer.stop())

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
                await self._app.crash(error)
                return

    async def _follow(self) -> None:
        if self._producer is None:
            producer = AIOKafkaProducer(**connection(self._app), acks="all", linger_ms=0)
            await producer.start()
            self._producer = producer
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
            consumer.seek(log, self._read)
            consumer.seek(beats, ends[beats])
            before = 0.0
            while True:
                found = await consumer.getmany(timeout_ms=500)
                now = asyncio.get_running_loop().time()
                if now - before > self._expiry / 2:  # it was this process that heard nothing
                    self._heard.clear()
                before = now
                for record in found.get(log, ()):
                    self._take(record)
                for record in found.get(beats, ()):
                    self._heard[(record.key or b"").decode("utf-8", "replace")] = now
                if found.get(log):
                    changed, self._changed = self._changed, asyncio.Event()
                    changed.set()
                if self._read >= ends[log]:
                    await self._act(now)
        finally:
            await wait_for_stop(consumer.stop())

    def _take(self, record: Any) -> None:
        if record.offset < self._read:  # the topic was deleted and made again
            self.member = Member(self.member.process)
            logger.error("route %s: its control topic was made anew", self._route.name)
        self._read = record.offset + 1
        before = self.member.agreement.version
        try:
            self.member.read(decode_control(record.value))
        except ValueError as error:
            logger.warning("%s/0/%d is no control record: %s", *record_place(record), error)
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
                await self._say(Joined(me))
            return
        for other in at.processes - {me}:
            if now - self._heard.setdefault(other, now) > self._expiry:
                self._heard[other] = now
                logger.warning("route %s: %s is gone", self._route.name, printable(other))
                await self._say(Left(other))
        for endpoint in at.endpoints.values():
            own = endpoint.listening
            if own and now - self._heard.setdefault(own.session, now) > own.lifetime:
                self._heard[own.session] = now
                logger.warning("route %s: listener %s expires", self._route.name, endpoint.name)
                why = f"not heard for {own.lifetime:.0f} s"
                await self._say(Unregister(endpoint.name, me, why, own.session))
        load, proposal = self.member.wanted(), at.proposal
        if load is not None:
            begun = self._loading is not None and self._loading[0] == load
            if not begun and (proposal is not None or self._is_due("load", now, RETRY)):
                self._loading = load, asyncio.create_task(self._load(load))
        elif proposal is not None and self._is_due("loaded", now, RETRY):
            await self._say(self.member.answer())  # the log may have it from before it joined
        if proposal is None and (self._differs or at.version < max(1, self._above)):
            why = "tables differ from the decided ones" if self._differs else "there are no rules"
            if self._is_due("propose", now, RETRY):
                self._differs = False
                await self._say(Propose(above=self._above, who=me, why=why))

    def _is_due(self, what: str, now: float, every: float) -> bool:
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every
        return True

    async def _beat(self) -> None:
        member, producer = self.member, self._producer
        rules = member.current
        said: dict[str, Any] = {
            "version": 0 if rules is None else rules.number,
            "paused": sorted(member.paused()),
            "period": self._expiry / 5,
            "trails_dropped": self.trails.dropped,
        }
        if producer is not None:
            key, value = member.process.encode(), orjson.dumps(said)
            await producer.send_and_wait(self._route.control, value, key, BEATS)

    async def _say(self, record: ControlRecord | None) -> None:
        if record is not None and self._producer is not None:
            await self._send(self._producer, record)

    async def _send(self, producer: AIOKafkaProducer, record: ControlRecord) -> None:
        # Compaction keeps every record of the log, as none has the key of another.
        key, value = uuid4().hex.encode(), encode_control(record)
        await producer.send_and_wait(self._route.control, value, key, LOG)

    # -- loading

    async def _load(self, load: Load) -> None:
        """Load off the event loop, and say what came of it."""
        before = None if load.fresh else self.member.current
        answer: ControlRecord | None
        try:
            made = self._threads.submit(partial(made_rules, self._route, load, before))
            async with asyncio.timeout(LOAD_LIMIT):
                rules = await asyncio.wrap_future(made)
        except TimeoutError:
            answer = self._failed(load, f"it took longer than {LOAD_LIMIT:.0f} s")
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
            await self._say(answer)
        except KafkaError as error:
            logger.warning("route %s: it is said again soon: %r", self._route.name, error)
        finally:
            if self._loading is not None and self._loading[0] == load:
                self._loading = None

    def _failed(self, load: Load, reason: str) -> ControlRecord | None:
        name, shown = self._route.name, printable(reason, 300)
        logger.error("route %s: rules %d cannot be loaded: %s", name, load.version, shown)
        return self.member.failed(load.version, reason)


class RulesInTurn:
    """Gives a partition's task the rules for each batch; the batch waits where there are none.

    Args:
        process: what knows the rules.
        topic: the source topic.
        task: which routes.
    """

    def __init__(self, process: RouterProcess, topic: str, task: RouteTask) -> None:
        self._process, self._topic, self._task = process, topic, task
        task.log_trail = process.trails.add

    async def admit(self, records: Sequence[Message], caught_up: Callable[[int], bool]) -> None:
        """Wait until there are rules for these records.

        Args:
            records: the batch.
            caught_up: not asked.
        """
        if records:
            task = self._task
            task.rules = await self._process.rules_for(self._topic, task.intake.rules)
            task.intake.rules = task.rules.number
            task.trace = self._process.member.agreement.trace


def record_place(record: Any) -> tuple[str, int]:
    """The topic and the offset of a record, for the log."""
    return record.topic, record.offset


def made_rules(route: Route, load: Load, before: RuleSet | None) -> RuleSet:
    """What the stage's function loads, with what is registered, once it is found to fit.

    Raises DeclarationError, and whatever the function raises.
    """
    if before is not None and not load.stale:
        rules = before
    else:
        assert route.reload is not None
        rules = route.reload(load, before)
        if not isinstance(rules, RuleSet) or rules.number != load.version:
            raise DeclarationError(f"reload gave {rules!r}; return the rules {load.version}")
    for what, has, wants in (
        ("sources", rules.sources, route.rules.sources),
        ("destinations", rules.destinations, route.to),
    ):
        if has.keys() != wants.keys():
            raise DeclarationError(
                f"{what} are {', '.join(map(printable, has))}, and were "
                f"{', '.join(wants)}; restart the workers to change them"
            )
    rules = rules.with_endpoints(load.version, load.endpoints)
    for endpoint in load.endpoints:
        topic = endpoint_topic(route.to[endpoint.destination], endpoint)
        if topic in route.topics:
            raise DeclarationError(f"endpoint {endpoint.name!r}: its topic {topic} is a source")
    assert rules.digest  # worked out here, and not on the event loop
    return rules
