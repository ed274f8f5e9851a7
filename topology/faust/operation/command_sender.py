"""Tell a running view what an operator wants, by its commands topic; audit records answer."""

import asyncio
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.partitioner import DefaultPartitioner

from stores.user import user_name
from topology.declaration.lanes import split_lane
from topology.declaration.view import View
from topology.diagnostics.records import body_of
from topology.engine.commands.command import UNKNOWN_STREAM, Command, CommandResult, encode_command
from topology.engine.state.lane_names import readings
from topology.faust.inspection import CannotAnswer
from topology.faust.inspection.named import view_of
from topology.faust.inspection.work import parked_events
from topology.faust.kafka.broker.clock import agree_on_time
from topology.faust.kafka.clients import connection, missing_topics, plain_consumer
from topology.faust.kafka.worker_clock import wall
from topology.model.counted import counted
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

T = TypeVar("T")

ANSWER = 30.0
"""Seconds to wait for the answer of a worker."""
EXPIRES = 600.0
"""Seconds after which a command that no worker has taken is not carried out any more."""

_for: ContextVar[str] = ContextVar("acting_for", default="")


class NoAnswer(CannotAnswer):
    """No worker answered in time."""


async def operate(
    app: Any, command: Command, *, seconds: float = ANSWER, expires: float = EXPIRES
) -> CommandResult:
    """Give a command to a view and wait for what comes of it.

    In a view with lanes the stream is looked for in all ways in which its name may be read.

    Args:
        app: what `compile` made.
        command: to one stream, or to the view.
        seconds: how long to wait for a worker's answer.
        expires: seconds after which no worker carries the command out any more; 0 for never.

    Raises:
        KeyError: there is no such view.
        NoAnswer: no worker answered in time.
    """
    view = view_of(app, command.view)
    command = replace(command, view=view.name)
    if view.work is not None and command.stream and command.name in ("redrive", "unpark", "drop"):
        parked = await parked_events(app, view, view.stream_id(command.stream))
        if parked and command.name == "drop" and not command.force:
            told = (
                f"view {view.name}: stream {printable(command.stream)} would lose "
                f"{counted(parked, 'parked event')} to {view.dead_topic}; force it if that is meant"
            )
            return CommandResult(False, told, {})
        # What is parked there may be of a stream that the first stage has forgotten.
        command = replace(command, force=command.force or bool(parked))
    names = readings(view, command.stream) if command.stream else [command.stream]
    meant = [replace(command, stream=name) for name in names]
    if command.force and len(names) > 1:
        # A stream that is not known is made only if none is, whatever its name may mean.
        meant = [*(replace(each, everywhere=True) for each in meant), meant[0]]
    found: list[CommandResult] = []
    async with CommandSender(app, [view]) as sender:
        for each in meant:
            (result,) = await sender.give([each], seconds=seconds, expires=expires)
            if result is None:
                raise NoAnswer(sender.unanswered(each, seconds, expires))
            if not _has_none(result):
                return result
            found.append(result)
    return found[0]


class CommandSender:
    """Gives commands to views, and waits for what comes of each."""

    def __init__(self, app: Any, views: Iterable[View]) -> None:
        self._app = app
        self._views = {view.name: view for view in views}
        self._stack = AsyncExitStack()
        self._found: dict[str, dict[object, CommandResult]] = {}
        self.last: list[Command] = []

    async def __aenter__(self) -> "CommandSender":
        """Connect. Raises NoAnswer where no worker has run yet."""
        app, views = self._app, self._views.values()
        topics = [topic for view in views for topic in (view.commands_topic, view.audit_topic)]
        for topic in await missing_topics(app, topics):
            raise NoAnswer(
                f"topic {topic!r} does not exist: no worker of this topology has run here yet"
            )
        # A command's time to live is held against the workers' clock.
        await agree_on_time(app)
        async with AsyncExitStack() as stack:
            self._consumer: AIOKafkaConsumer = plain_consumer(app)
            self._producer = AIOKafkaProducer(
                **connection(app), acks="all", enable_idempotence=True
            )
            for client in (self._consumer, self._producer):
                stack.push_async_callback(_stop, client)
                await client.start()
            audit = TopicPartition(next(iter(views)).audit_topic, 0)
            self._consumer.assign([audit])
            self._consumer.seek(audit, (await self._consumer.end_offsets([audit]))[audit])
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def give(
        self, commands: Iterable[Command], *, seconds: float = ANSWER, expires: float = EXPIRES
    ) -> list[CommandResult | None]:
        """What comes of commands, None of those that nobody has answered `seconds` after the last
        answer."""
        now, me = wall(), who()
        self.last, wanted, sent = [], {}, []
        for command in commands:
            view = self._views[command.view]
            stream = view.stream_id(command.stream) if command.stream else command.stream
            partitions = partitions_of(view, stream)
            command = replace(
                command,
                stream=stream,
                id=uuid4().hex,
                who=me if command.who == "unknown" else command.who,
                everywhere=command.everywhere or (stream is not None and len(partitions) > 1),
                given=now,
                expires=now + round(expires * 1000) if expires else 0,
            )
            self.last.append(command)
            wanted[command.id] = len(partitions)
            key = (command.stream or view.name).encode()
            sent += [
                await self._producer.send(
                    view.commands_topic, encode_command(command), key=key, partition=number
                )
                for number in partitions
            ]
        await asyncio.gather(*sent)
        await self._answers(wanted, seconds)
        return [
            _best(command, list(self._found[command.id].values()))
            if self._is_answered(command.id, wanted)
            else None
            for command in self.last
        ]

    def unanswered(self, command: Command, seconds: float, expires: float) -> str:
        """Why there is no answer, and what becomes of the command."""
        (last,) = self.last
        every = partitions_of(self._views[command.view], last.stream)
        until = f"for {expires:.0f} s" if expires else "until one comes"
        return (
            f"{len(self._found.get(last.id, ()))} of {len(every)} partitions answered in "
            f"{seconds:.0f} s: does a worker run? The command waits {until}; list it with "
            f"`commands`, and take it back with `cancel {last.id[:8]}`"
        )

    async def _answers(self, wanted: dict[str, int], seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if all(self._is_answered(id, wanted) for id in wanted):
                return
            for records in (await self._consumer.getmany(timeout_ms=500)).values():
                for record in records:
                    body = body_of(record)
                    if str(body.get("id")) in wanted:
                        result = CommandResult(
                            body["done"], body["message"], body["facts"], body.get("outcome", "")
                        )
                        # At least once, a partition may answer again after a crash.
                        partition = body.get("partition", record.offset)
                        found = self._found.setdefault(body["id"], {})
                        if found.setdefault(partition, result) is result:
                            until = time.monotonic() + seconds

    def _is_answered(self, id: str, wanted: Mapping[str, int]) -> bool:
        return len(self._found.get(id, ())) >= wanted[id]


def partitions_of(view: View, stream: str | None) -> list[int]:
    """Where a command goes: to the stream's partition if that is known, else to all of them."""
    every = list(range(view.of.partitions))
    if stream is None or view.of.keyed:
        # Who keyed the records of a keyed source, and how, is not known here.
        return every
    own = stream if view.split is None else split_lane(stream)[0]
    return [DefaultPartitioner()(own.encode(), every, every)]


def _has_none(result: CommandResult) -> bool:
    """Whether a command found no such stream."""
    return bool(result.facts.get(UNKNOWN_STREAM))


async def _stop(client: AIOKafkaConsumer | AIOKafkaProducer) -> None:
    await wait_for_stop(client.stop())


def _best(command: Command, results: list[CommandResult]) -> CommandResult:
    """The answer that counts, of those of all partitions: what was done, else what is refused.

    What is told to a view is done when all partitions have done it.
    """
    done = [result for result in results if result.done]
    if command.stream is None and 0 < len(done) < len(results):
        other = next(result for result in results if not result.done)
        told = f"{command.name} is done in {len(done)} of {len(results)} partitions; in others: "
        return replace(other, message=told + other.message)
    new = [result for result in done if not result.facts.get("already")]
    knew = [result for result in results if not _has_none(result)]
    return (new or done or knew or results)[0]


@contextmanager
def acting_for(name: str) -> Iterator[None]:
    """Record what is done in the block under somebody's name, too: a program acts for them."""
    before = _for.set(name)
    try:
        yield
    finally:
        _for.reset(before)


def acting() -> str:
    """The name that a program acts for in this block, "" without one."""
    return _for.get()


def who() -> str:
    """Return the user and host that a command is recorded under."""
    me = f"{user_name()}@{socket.gethostname()}"
    return f"{name} by {me}" if (name := acting()) else me
