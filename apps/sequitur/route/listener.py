"""A listener: it registers, says that it lives, and carries out what broadcasts trigger.

What is triggered was registered here, by name. Of the message nothing is run: an action reads it.
"""

import asyncio
import logging
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sequitur.alerts.actions import Actions
from sequitur.route.control import BEATS, LOG, Control, ControlLog, who
from stores.db.dialect import begin_writing
from stores.segments import PublishedIds
from stores.segments.published_ids import KeptId
from topology.model.ending import end_tasks, wait_for_stop
from topology.model.errors import DeclarationError
from topology.model.printable import printable
from topology.routing import Endpoint, Register, broadcast_of, encode_control

logger = logging.getLogger("route")

AGAIN = 2.0
"""Seconds until it begins again where Kafka, or the database, failed."""
KEPT = 90 * 86_400.0
"""Seconds for which it is known which actions of which broadcasts are done."""
SHOWN = 64 << 10
"""Bytes of a message that an action reads."""
LONGEST_WORK = 3_600_000
"""Milliseconds for which actions may keep Kafka waiting."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A broadcast as an action reads it: its id, where it stands, and the message."""

    broadcast: str
    topic: str
    partition: int
    offset: int
    key: str | None
    value: str | None

    @property
    def subject(self) -> str:
        """One line."""
        return f"broadcast {printable(self.broadcast, 200)}"

    def __str__(self) -> str:
        return f"{self.subject}\n\n{printable(self.value or '', 2_000)}"

    def as_dict(self) -> dict[str, Any]:
        """It, for JSON."""
        return asdict(self)


class Listener:
    """One listener of a router. Run one process for a name.

    Args:
        endpoint: as it registers, in a session of its own.
        topic: that it reads.
        control: of the router.
        actions: that broadcasts may trigger, by name.
        engine: of the database that knows what is done.

    Attributes:
        counts: actions "done", "failed" (given up), "repeated" and "unknown".
    """

    def __init__(
        self, endpoint: Endpoint, topic: str, control: Control, actions: Actions, engine: Engine
    ) -> None:
        assert endpoint.listening is not None
        self._endpoint, self._own, self._topic = endpoint, endpoint.listening, topic
        self._control, self._actions, self._engine = control, actions, engine
        self._ids = PublishedIds(engine, f"listener/{control.topic}/{endpoint.name}")
        self._ids.create()
        self._unnoted: dict[str, bool] = {}
        """What is carried out, and not yet noted → whether it is done."""
        self._seen = self._replaced = False
        self._before: Endpoint | None = None
        """Who has its place again where its registration is refused."""
        self.counts: Counter[str] = Counter()

    async def run(self, stopped: asyncio.Event) -> None:
        """Listen until it is told to stop; what it does then is done first.

        Raises:
            DeclarationError: another process has registered as this listener.
        """
        living = asyncio.create_task(self._live_again(stopped))
        try:
            while not stopped.is_set():
                try:
                    await self._hear(stopped)
                except (KafkaError, OSError, SQLAlchemyError) as error:
                    logger.warning("%s; trying again", printable(repr(error)))
                    await asyncio.sleep(AGAIN)
        finally:
            await end_tasks(living)
        if self._replaced:
            name = self._endpoint.name
            raise DeclarationError(f"listener {name!r}: another process listens under this name")

    # -- what it hears

    async def _hear(self, stopped: asyncio.Event) -> None:
        consumer = AIOKafkaConsumer(
            self._topic,
            **self._control.kafka,
            group_id=f"{self._control.topic}.{self._endpoint.name}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            metadata_max_age_ms=5_000,
            max_poll_interval_ms=LONGEST_WORK,
        )
        try:
            await consumer.start()
            while not stopped.is_set():
                found = await consumer.getmany(timeout_ms=500)
                for record in (each for records in found.values() for each in records):
                    if stopped.is_set():
                        return  # what is done by then is known by its id
                    await self._take(record)
                if found:
                    await consumer.commit()
        finally:
            await wait_for_stop(consumer.stop())

    async def _take(self, record: Any) -> None:
        if (found := broadcast_of(record.headers)) is None:
            return
        id_, names = found
        key, value = (
            None if each is None else each[:SHOWN].decode("utf-8", "replace")
            for each in (record.key, record.value)
        )
        heard = Heard(id_, record.topic, record.partition, record.offset, key, value)
        logger.info("%s: %s", heard.subject, ", ".join(map(printable, names)) or "plain")
        for name in names:
            once = f"{id_} {name}"
            if name not in self._own.actions:
                logger.error("%s: no action %s here", heard.subject, printable(name))
                self.counts["unknown"] += 1
            elif await asyncio.to_thread(self._is_noted, once):
                self.counts["repeated"] += 1
            else:
                if once not in self._unnoted:
                    self._unnoted[once] = await self._actions.carry_out(name, heard)
                await asyncio.to_thread(self._note, once)
                self.counts["done" if self._unnoted.pop(once) else "failed"] += 1

    def _is_noted(self, once: str) -> bool:
        return once not in self._unnoted and bool(self._ids.among([once]))

    def _note(self, once: str) -> None:
        with self._engine.begin() as connection:
            begin_writing(connection)
            self._ids.note(connection, [KeptId(once, KEPT, None)])

    # -- that it lives

    async def _live_again(self, stopped: asyncio.Event) -> None:
        while not self._replaced:
            try:
                await self._live()
            except (KafkaError, OSError) as error:
                logger.warning("%s: %s", self._control.topic, printable(repr(error)))
                await asyncio.sleep(AGAIN)
        stopped.set()

    async def _live(self) -> None:
        """Register, say that it lives, and register again where it was found silent."""
        control, session, own = self._control, self._own.session, self._endpoint.name
        now = asyncio.get_running_loop().time
        place, log, beat, again, told = (
            TopicPartition(control.topic, LOG),
            ControlLog(),
            0.0,
            0.0,
            "",
        )
        async with AsyncExitStack() as stack:
            producer = AIOKafkaProducer(**control.kafka, acks="all")
            consumer = AIOKafkaConsumer(**control.kafka, enable_auto_commit=False)
            for client in (producer, consumer):
                await client.start()
                stack.push_async_callback(partial(_stopped, client))
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            end = (await consumer.end_offsets([place]))[place]
            while True:
                for each in (await consumer.getmany(timeout_ms=500)).get(place, ()):
                    if each.offset < log.read:
                        raise ConnectionError("the control topic was made anew")
                    log.take(each)
                    if log.agreement.endpoints.get(own) == self._endpoint:
                        self._before = None
                if log.read < end or now() < beat:
                    continue
                if (why := log.agreement.refused or "") != told and self._seen:
                    logger.error("%s", printable(why, 600))
                beat, told = now() + self._own.lifetime / 5, why
                found = (log.agreement.proposal or log.agreement).endpoints.get(own)
                listening = None if found is None else found.listening
                if listening is not None and listening.session == session:
                    self._seen = True
                elif self._seen and found not in (None, self._before):
                    self._replaced = True
                    return
                elif now() >= again:  # not at once: a registration may be refused
                    again, self._before = now() + self._own.lifetime, found
                    value = encode_control(Register(self._endpoint, who(), "it listens"))
                    await producer.send_and_wait(control.topic, value, uuid4().hex.encode(), LOG)
                said = orjson.dumps({"listener": own, **self.counts})
                await producer.send_and_wait(control.topic, said, session.encode(), BEATS)


async def _stopped(client: Any) -> None:
    await wait_for_stop(client.stop())
