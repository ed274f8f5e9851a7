"""The process that captures: a task for each topic, and a look for new ones now and then."""

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from prometheus_client import Histogram
from sqlalchemy.exc import SQLAlchemyError

from sequitur.replay.content import Contents
from sequitur.replay.replay_file import ReplayFile
from stores.db.urls import said
from stores.replay import ReplayError, ReplayLog
from stores.replay.capture import TopicCapture, capture_leases
from stores.segments import SegmentError
from stores.segments.transports.kafka import KafkaInbound
from stores.sites.site import Site
from topology.model.ending import end_tasks, wait_for_stop
from topology.model.errors import DeclarationError
from topology.model.printable import printable

logger = logging.getLogger("replay")
GROUP = "sequitur-replay"
"""Under which positions are committed, for monitors."""
STOPPED = 15.0
"""Seconds until what needs somebody to look at it is tried again."""
_RETRY = 1.0
_TELL = 60.0


class Capture:
    """Captures what a file names, until it is stopped.

    Args:
        file: the log, and what is captured.
        kafka: arguments of aiokafka's clients.

    Attributes:
        works: topic → its capture.
        counts: topic → what tells what became of its messages.
        unfit: topic → why it is not captured, whatever happens, as the file is.
        took: is told of the time of each batch, by topic.
    """

    def __init__(self, file: ReplayFile, kafka: Mapping[str, Any]) -> None:
        self._file, self._kafka = file, dict(kafka)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._site = file.replay.site
        self._missing: set[str] = set()
        self.works: dict[str, TopicCapture] = {}
        self.unfit: dict[str, str] = {}
        self.counts: dict[str, Callable[[], Counter[str]]] = {}
        self.took: Histogram | None = None
        self._holder = f"{socket.gethostname()}/{os.getpid()}"

    async def run(self, stopped: asyncio.Event) -> None:
        """Capture; what is away is waited for."""
        log: ReplayLog | None = None
        while not stopped.is_set():
            try:
                if self._site is None:
                    self._site = await Site("of the capture", self._kafka).identify()
                if log is None:
                    log = await asyncio.to_thread(self._file.log)
                await self._look(log, stopped)
            except (SQLAlchemyError, KafkaError, OSError) as error:
                logger.warning("capture waits: %s", said(error, self._file.url))
                await _wait(stopped, _RETRY)
        await end_tasks(*self._tasks.values())

    async def _look(self, log: ReplayLog, stopped: asyncio.Event) -> None:
        looking = AIOKafkaConsumer(**self._kafka)
        try:
            await looking.start()
            while not stopped.is_set():
                there = {each for each in await looking.topics() if self._file.captures(each)}
                missing = self._file.names() - there
                for topic in sorted(missing - self._missing):
                    logger.warning("topic %s is not there yet; it is waited for", printable(topic))
                self._missing = missing
                for topic in there - self._tasks.keys():
                    self._tasks[topic] = asyncio.create_task(self._capture(log, topic))
                for topic in self._tasks.keys() - there:
                    logger.error("topic %s is gone; what it had is kept", printable(topic))
                    await end_tasks(self._tasks.pop(topic))
                    self.unfit.pop(topic, None)
                await _wait(stopped, self._file.replay.look)
        finally:
            await wait_for_stop(looking.stop())

    async def _capture(self, log: ReplayLog, topic: str) -> None:
        """Capture one topic; what stops it stops no other one, and is tried again."""
        try:
            contents = Contents(self._file, topic)
        except DeclarationError as error:
            logger.error("topic %s is not captured: %s", printable(topic), error)
            self.unfit[topic] = str(error)
            return
        work = TopicCapture(
            log,
            inbound(topic, self._kafka),
            contents.find,
            site=self._site or "",
            holder=self._holder,
            lease=self._file.replay.lease,
        )
        self.works[topic] = work
        self.counts[topic] = lambda: work.counts + contents.counts
        if self.took is not None:
            work.took = self.took.labels(topic).observe
        telling = asyncio.create_task(_tell(topic, self.counts[topic]))
        logger.info("capturing %s", printable(topic))
        try:
            while True:
                try:
                    await work.run(pause=0.05)
                except (SegmentError, ReplayError) as error:
                    work.failing = said(error)
                    logger.error("%s; tried again every %.0f s", said(error), STOPPED)
                except Exception as error:
                    work.failing = f"a fault of Sequitur's: {error!r}"
                    logger.exception("a fault of Sequitur's")
                await asyncio.sleep(STOPPED)
        finally:
            await end_tasks(telling)
            del self.works[topic]


def inbound(topic: str, kafka: Mapping[str, Any]) -> KafkaInbound:
    """A topic as capture consumes it."""
    remedy = "see sequitur replay anew --help"
    return KafkaInbound(topic, kafka, GROUP, remedy=remedy, recognise_each=True)


async def begin_anew(file: ReplayFile, kafka: Mapping[str, Any], topic: str) -> None:
    """Forget how far a topic is captured that was deleted and made again.

    Raises:
        ReplayError: it is the one that was captured, or a process captures it.
    """
    log = file.existing_log()
    owner = capture_leases(log, file.replay.lease).own_end(topic, "sequitur replay anew")
    if owner is None:
        raise ReplayError(f"topic {topic!r} is captured by a process; nothing is to be done")
    reading = inbound(topic, kafka)
    try:
        with suppress(SegmentError):
            await reading.start(log.positions(topic))
            await reading.recognise(log.source(topic))
            raise ReplayError(f"topic {topic!r} is the one that was captured; capture goes on")
        with log.engine.begin() as connection:
            owner.check(connection)
            log.forget(connection, topic)
    finally:
        await reading.stop()
        owner.let_go()


async def _tell(topic: str, counts: Callable[[], Counter[str]]) -> None:
    """Say what was captured since this was said last, now and then and at the end."""
    told: Counter[str] = Counter()
    try:
        while True:
            await asyncio.sleep(_TELL)
            now = counts()
            _say(topic, now - told)
            told = now
    finally:
        _say(topic, counts() - told)


def _say(topic: str, counts: Counter[str]) -> None:
    if not counts:
        return
    if counts["unread"]:
        counts["of them stored without metadata"] = counts.pop("unread")
    words = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    level = logging.WARNING if len(counts) > 1 else logging.INFO
    logger.log(level, "%s: %s", printable(topic), words)


async def _wait(stopped: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stopped.wait(), seconds)
