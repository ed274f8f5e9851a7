"""Tell a running view what an operator wants, by its commands topic; audit records answer."""

import asyncio
import getpass
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.partitioner import DefaultPartitioner

from topology.commands import Command, Result, encode_command
from topology.faust.kafka import connection, missing_topics, plain_consumer
from topology.lanes import split_lane
from topology.topology import Topology
from topology.view import View

T = TypeVar("T")

ANSWER = 30.0
"""Seconds to wait for the answer of a worker."""


class NoAnswer(RuntimeError):
    """No worker answered; the command stays in the topic and is carried out when one does."""


async def operate(app: Any, command: Command, *, seconds: float = ANSWER) -> Result:
    """Give a command to a view and wait for what comes of it.

    Raises KeyError for a view that is not there, NoAnswer where no worker answers in time.
    """
    view = view_of(app, command.view)
    topics = [view.commands_topic, view.audit_topic]
    for topic in await missing_topics(app, topics):
        raise NoAnswer(
            f"topic {topic!r} does not exist: no worker of this topology has run here yet"
        )
    stream = view.stream_id(command.stream) if command.stream else command.stream
    partitions = _partitions(view, stream)
    command = replace(
        command,
        stream=stream,
        id=uuid4().hex,
        who=who() if command.who == "unknown" else command.who,
        everywhere=command.stream is not None and len(partitions) > 1,
    )
    audit = TopicPartition(view.audit_topic, 0)
    consumer = plain_consumer(app)
    producer = AIOKafkaProducer(**connection(app), acks="all")
    await consumer.start()
    try:
        consumer.assign([audit])
        consumer.seek(audit, (await consumer.end_offsets([audit]))[audit])
        await producer.start()
        key = (command.stream or view.name).encode()
        for partition in partitions:
            await producer.send_and_wait(
                view.commands_topic, encode_command(command), key=key, partition=partition
            )
        return _best(await _answers(consumer, command.id, len(partitions), seconds))
    finally:
        await asyncio.gather(consumer.stop(), producer.stop())


def view_of(app: Any, name: str) -> View:
    """The view of that name; the only one if the name is empty. Raises KeyError."""
    topology: Topology = app.engine.topology
    return named("view", name, topology.views, topology.name)


def named(what: str, name: str, found: Mapping[str, T], topology: str) -> T:
    """The view or source of that name; the only one if the name is empty. Raises KeyError."""
    if not name and len(found) == 1:
        return next(iter(found.values()))
    if name not in found:
        known = ", ".join(found)
        raise KeyError(
            f"{what} {name!r} is not in {topology!r}; it has {known}"
            if name
            else f"name the {what} with --{what}; there are {known}"
        )
    return found[name]


def _partitions(view: View, stream: str | None) -> list[int]:
    """Where a command goes: to the stream's partition if that is known, else to all of them."""
    every = list(range(view.of.partitions))
    if stream is None or view.of.keyed:
        # Who keyed the records of a keyed source, and how, is not known here.
        return every
    own = stream if view.split is None else split_lane(stream)[0]
    return [DefaultPartitioner()(own.encode(), every, every)]


async def _answers(
    consumer: AIOKafkaConsumer, wanted: str, count: int, seconds: float
) -> list[Result]:
    found: list[Result] = []
    until = time.monotonic() + seconds
    while len(found) < count:
        if time.monotonic() > until:
            raise NoAnswer(
                f"{len(found)} of {count} partitions answered in {seconds:.0f} s; the command is "
                "carried out when a worker has the rest of them: look at the audit topic then"
            )
        for records in (await consumer.getmany(timeout_ms=500)).values():
            for record in records:
                body = orjson.loads(record.value)
                if body.get("id") == wanted:
                    found.append(Result(body["done"], body["message"], body["facts"]))
    return found


def _best(results: list[Result]) -> Result:
    """The answer that counts, of those of all partitions: what was done, else what is refused."""
    done = [result for result in results if result.done]
    knew = [result for result in results if "has no stream" not in result.message]
    return (done or knew or results)[0]


def who() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"
