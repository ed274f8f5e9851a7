"""A router's control topic as commands see it: what is agreed on, and what they add to it."""

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from sequitur.cli.options import BROKER, properties_option
from sequitur.kafka.login import kafka_login
from sequitur.route.router_file import load_router, units_control
from sequitur.route.unit_routing import control_topic
from stores.user import user_name
from topology.diagnostics.records import body_of
from topology.model.ending import wait_for_stop
from topology.model.errors import DeclarationError
from topology.model.names import checked_topic
from topology.model.printable import printable
from topology.routing import Agreement, ControlRecord, decode_control, encode_control

LOG, BEATS = 0, 1
LISTEN = 5.0
"""Times its own period that a process has for a heartbeat, before it is told of as silent."""
PERIOD = 2.0
"""Seconds between the heartbeats of a process that does not say how many."""


class ControlTopicMissing(DeclarationError):
    """A router's control topic is not there: it has never run."""


@dataclass(slots=True)
class ControlLog:
    """What a control topic says.

    Attributes:
        agreement: what the processes agree on.
        orders: who asked for what, in order.
        heard: the processes that were heard while somebody listened.
        said: process → what it said last.
        decided: version → what was agreed on last while it was the decided one.
        proposed: offset of what was asked for → the version that it asks for.
        outcome: version → what was agreed on when it was decided or, if that says why, refused.
        read: the offset up to which the log is read.
        strange: records that are none.
    """

    agreement: Agreement = field(default_factory=Agreement)
    orders: list[ControlRecord] = field(default_factory=list)
    heard: set[str] = field(default_factory=set)
    said: dict[str, Any] = field(default_factory=dict)
    decided: dict[int, Agreement] = field(default_factory=dict)
    proposed: dict[int, int] = field(default_factory=dict)
    outcome: dict[int, Agreement] = field(default_factory=dict)
    read: int = 0
    strange: int = 0

    def take(self, record: Any, live: bool = False) -> None:
        """Add a record. live: it came while somebody listened."""
        if record.partition == BEATS:
            if record.key is not None:
                name = record.key.decode("utf-8", "replace")
                self.said[name] = body_of(record)
                if live and record.value is not None:
                    self.heard.add(name)
            return
        self.read = record.offset + 1
        try:
            found = decode_control(record.value)
        except ValueError:
            self.strange += 1
            return
        before, self.agreement = self.agreement, self.agreement.after(found)
        at = self.agreement
        if at.highest > before.highest:
            self.proposed[record.offset] = at.highest
        elif before.proposal is not None and at.proposal is None:
            # What is proposed while another version is open is one with it.
            self.outcome |= {v: at for v in self.proposed.values() if v not in self.outcome}
        self.decided[at.version] = at
        if getattr(found, "who", None) is not None:
            self.orders.append(found)

    def silent(self) -> list[str]:
        """The processes that were not heard while somebody listened; no clock is asked."""
        return sorted(self.agreement.processes - self.heard)

    def counted(self) -> list[tuple[int, int, int]]:
        """Of each partition, as whoever had it last says: messages, unrouted and failed ones."""
        found: dict[str, tuple[int, int, int]] = {}
        for said in self.said.values():
            counts = said.get("counts")
            for place, each in counts.items() if isinstance(counts, dict) else ():
                if isinstance(each, list) and [*map(type, each)] == [int] * 3:
                    found[place] = max(found.get(place, (0, 0, 0)), (each[0], each[1], each[2]))
        return list(found.values())

    def fired(self) -> dict[str, tuple[int, float]]:
        """Rule → (how often it fired, how often a second lately), of the processes that are heard
        or have not left."""
        found: dict[str, tuple[int, float]] = {}
        for process in self.agreement.processes:
            rules = self.said.get(process, {}).get("rules")
            for name, each in rules.items() if isinstance(rules, dict) else ():
                if isinstance(each, list) and len(each) == 2 and _are_numbers(each):
                    count, rate = found.get(name, (0, 0.0))
                    found[name] = count + int(each[0]), rate + float(each[1])
        return found

    def patience(self) -> float:
        """Seconds to listen for all of them."""
        periods = (self.said.get(each, {}).get("period") for each in self.agreement.processes)
        known = [float(each) for each in periods if isinstance(each, int | float)]
        return LISTEN * min(60.0, max(known, default=PERIOD))


@dataclass(frozen=True, slots=True)
class Control:
    """Where a router is controlled.

    Attributes:
        topic: its control topic.
        kafka: arguments of aiokafka's clients.
    """

    topic: str
    kafka: Mapping[str, Any]

    async def read(self, listen: bool = False) -> ControlLog:
        """Read what there is.

        Args:
            listen: wait for a heartbeat of each process.

        Raises:
            KafkaError: Kafka cannot be reached.
            ControlTopicMissing: there is no such topic.
        """
        async with AsyncExitStack() as stack:
            consumer, ends = await self._consumer(stack)
            log = await self._until(consumer, ends, ControlLog())
            until = time.monotonic() + log.patience()
            while listen and log.silent() and time.monotonic() < until:
                for records in (await consumer.getmany(timeout_ms=300)).values():
                    for each in records:
                        log.take(each, live=True)
            return log

    async def order(self, record: ControlRecord, seconds: float) -> tuple[ControlLog, int]:
        """Add a record, and wait until what it asks for is decided or refused.

        Args:
            record: it.
            seconds: that it may take.

        Returns:
            The log then, and the version that was proposed, 0 if none was; what became of it is in
            the log's `outcome`.

        Raises:
            ValueError: a text in it is too long, or a value is wrong.
        """
        decode_control(encode_control(record))
        async with AsyncExitStack() as stack:
            consumer, ends = await self._consumer(stack)
            producer = AIOKafkaProducer(**self.kafka, acks="all")
            await producer.start()
            stack.push_async_callback(lambda: wait_for_stop(producer.stop()))
            key, value = uuid4().hex.encode(), encode_control(record)
            sent = await producer.send_and_wait(self.topic, value, key, LOG)
            ends[TopicPartition(self.topic, LOG)] = sent.offset + 1
            log = await self._until(consumer, ends, ControlLog())
            version, until = log.proposed.get(sent.offset, 0), time.monotonic() + seconds
            while version and version not in log.outcome and time.monotonic() < until:
                for records in (await consumer.getmany(timeout_ms=300)).values():
                    for each in records:
                        log.take(each)
            return log, version

    async def _consumer(
        self, stack: AsyncExitStack
    ) -> tuple[AIOKafkaConsumer, dict[TopicPartition, int]]:
        consumer = AIOKafkaConsumer(**self.kafka, enable_auto_commit=False)
        await consumer.start()
        stack.push_async_callback(lambda: wait_for_stop(consumer.stop()))
        if self.topic not in await consumer.topics():
            raise ControlTopicMissing(f"topic {self.topic!r} is not there; start the router first")
        places = [TopicPartition(self.topic, number) for number in (LOG, BEATS)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends: dict[TopicPartition, int] = await consumer.end_offsets(places)
        return consumer, ends

    async def _until(
        self, consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int], log: ControlLog
    ) -> ControlLog:
        while any([await consumer.position(place) < end for place, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=300)).values():
                for record in records:
                    log.take(record)
        return log


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(each, int | float) for each in values)


def control_of(router: str, broker: str | None, properties: Path | None) -> Control:
    """Where a router is controlled.

    Args:
        router: the path of its file, or the control topic of a stage.
        broker: host:port; the file's, or that of the environment, unless given.
        properties: how to log in.
    """
    if not router.endswith(".toml"):
        return Control(checked_topic(router), kafka_login(broker, properties))
    path = Path(router)
    if (units := units_control(path)) is not None:
        name, kafka = units
        given = broker is not None or properties is not None
        return Control(control_topic(name), kafka_login(broker, properties) if given else kafka)
    file = load_router(path)
    return Control(control_topic(file.name), kafka_login(broker or file.broker, properties))


def controls(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ROUTER, and how to reach Kafka."""
    broker = click.option("--broker", type=BROKER, help="Kafka; default: that of the file.")
    return click.argument("router")(properties_option(broker(function)))


def who() -> str:
    """Who gives a command: the user and the machine."""
    return printable(f"{user_name()}@{socket.gethostname()}", 200)
