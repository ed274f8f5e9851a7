"""Explain a stream: its view's rows, and what the topics around it say."""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson
from aiokafka import TopicPartition
from aiokafka.partitioner import DefaultPartitioner

from topology.errors import Malformed
from topology.event import Message
from topology.explain import Account, Around, Arrival, account, of_stream
from topology.faust.looks.durable import Durable, Group, Span
from topology.faust.offsets import Committed
from topology.faust.operate import view_of
from topology.origin import original
from topology.progress import Progress, last_of
from topology.source import Source
from topology.view import View
from topology.view_task import ViewTask

LATE = 5
"""Late events of a stream that are told, the last ones."""


async def explain(
    app: Any, stream: str, view: str = "", *, command: str = "faust -A app"
) -> list[Account]:
    """Why a stream is where it is, in one view or in all; nothing is stopped for it.

    command: what the command lines that would help begin with. Raises KeyError for a view that is
    not there, NotThere where no worker has run yet.
    """
    views = [view_of(app, view)] if view else list(app.engine.topology.views.values())
    async with Durable(app) as durable:
        group = await durable.group()
        look = _Look(durable, group, stream, command)
        return [found for each in views for found in await look.at(each)]


@dataclass(frozen=True, slots=True)
class _Input:
    """One partition of a source, looked at for one stream.

    seen: the offsets of the stream's messages among the `looked` last ones; newest: the last one.
    """

    partition: TopicPartition
    span: Span
    committed: Committed | None
    unkeyed: int
    looked: int
    seen: list[int]
    newest: Arrival | None


class _Look:
    """Looks at one stream, at what is common to several views only once."""

    def __init__(self, durable: Durable, group: Group, stream: str, command: str) -> None:
        self._durable = durable
        self._group = group
        self._stream = stream
        self._command = command
        self._inputs: dict[TopicPartition, _Input] = {}

    async def at(self, view: View) -> list[Account]:
        """The accounts of a view: of the partition that has the stream, or each that may."""
        every = list(range(view.of.partitions))
        likely = DefaultPartitioner()(self._stream.encode(), every, every)
        # Who keyed the records of a keyed source, and how, is not known here.
        others = [number for number in every if number != likely] if view.of.keyed else []
        for number in (likely, *others):
            task = await self._durable.task(view, number, of_stream(self._stream))
            if number == likely:
                first = task
            if task.known(self._stream):
                return [await self._account(task, number)]
        found = [await self._account(first, likely)]
        for number in others:
            if (await self._input(view.of, number)).seen:
                task = await self._durable.task(view, number, of_stream(self._stream))
                found.append(await self._account(task, number))
        return [each for each in found if each.situation != "unknown"] or found[:1]

    async def _account(self, task: ViewTask, partition: int) -> Account:
        durable, view, stream = self._durable, task.view, self._stream
        source = await self._input(view.of, partition)
        position = task.positions.input
        if position is None:
            position = source.committed.offset if source.committed else source.span.first
        around = Around(
            now=durable.now,
            partition=partition,
            position=position,
            end=source.span.end,
            unkeyed=source.unkeyed,
            owner=self._group.owners.get(source.partition),
            group=self._group.state,
            newest=source.newest,
            unread=sum(1 for offset in source.seen if offset >= position),
            looked=source.looked,
            away=tuple(await durable.away(task, partition, stream)),
            late=await self._late(task),
            failure=await self._failure(task),
            command=self._command,
        )
        return account(task, stream, around)

    async def _input(self, source: Source, number: int) -> _Input:
        partition = TopicPartition(source.by_stream, number)
        found = self._inputs.get(partition)
        if found is not None:
            return found
        looked, seen, newest = 0, [], None
        async for record in self._durable.tail(partition):
            looked += 1
            if (sequence := self._mine(source, record)) is not None:
                seen.append(record.offset)
                message = record if source.keyed else original(record)
                newest = Arrival(
                    sequence, message.topic, message.partition, message.offset, record.timestamp
                )
        durable = self._durable
        committed = (await durable.committed([partition])).get(partition)
        unkeyed = await durable.unkeyed(source)
        span = (await durable.span([partition]))[partition]
        found = _Input(partition, span, committed, unkeyed, looked, seen, newest)
        self._inputs[partition] = found
        return found

    def _mine(self, source: Source, record: Message) -> int | None:
        """The sequence of a record of the stream, None of any other."""
        if not source.keyed and record.key != self._stream.encode():
            return None
        with suppress(Malformed):
            found = source.inspect(record if source.keyed else original(record))
            if found is not None and found[0] == self._stream:
                return found[1]
        return None

    async def _late(self, task: ViewTask) -> tuple[Arrival, ...]:
        """The stream's last late events in the view, where the late topic has them."""
        if not task.counts.late:
            return ()
        found: list[Arrival] = []
        async for record in self._of_view(task.view, task.view.late_topic):
            sequence = next(v for name, v in reversed(record.headers) if name == "sequence")
            found.append(
                Arrival(
                    int(sequence), record.topic, record.partition, record.offset, record.timestamp
                )
            )
        return tuple(found[-LATE:])

    async def _failure(self, task: ViewTask) -> str | None:
        """Why the event failed that a stream which is set aside waits with."""
        progress = task.progress(self._stream)
        if not isinstance(progress, Progress) or not progress.held:
            return None
        head = next((event.sequence for event in task.waits(self._stream)), last_of(progress))
        failure: str | None = None
        async for record in self._of_view(task.view, task.view.errors_topic):
            report = orjson.loads(record.value or b"{}")
            if report.get("sequence") == head:
                failure = report.get("error")
        return failure

    async def _of_view(self, view: View, topic: str) -> AsyncIterator[Message]:
        """The stream's records of a view at the end of a topic that all views write to."""
        key, header = self._stream.encode(), ("view", view.name.encode())
        async for record in self._durable.tail(TopicPartition(topic, 0)):
            if record.key == key and header in record.headers:
                yield record
