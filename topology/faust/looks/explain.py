"""Explain a stream: its view's rows, and what the topics around it say."""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson
from aiokafka import TopicPartition
from aiokafka.partitioner import DefaultPartitioner

from topology.errors import Malformed
from topology.event import Event, Message
from topology.explain import Account, Around, Arrival, account, lanes_of, of_lanes, of_stream
from topology.faust.looks.durable import Durable, Group, Span
from topology.faust.offsets import Committed
from topology.faust.operate import view_of
from topology.lanes import LANE, split_lane
from topology.origin import original
from topology.progress import Progress, last_of
from topology.view import View
from topology.view_task import ViewTask

LATE = 5
"""Late events of a stream that are told, the last ones."""


async def explain(
    app: Any, stream: str, view: str = "", *, command: str = "faust -A app"
) -> list[Account]:
    """Why a stream is where it is, in one view or in all; nothing is stopped for it.

    A view with lanes has an account for each lane of the stream, or the one of a lane that is
    named as in its output records (`3|EUR`).
    command: what the command lines that would help begin with. Raises KeyError for a view that is
    not there, NotThere where no worker has run yet.
    """
    views = [view_of(app, view)] if view else list(app.engine.topology.views.values())
    async with Durable(app) as durable:
        group = await durable.group()
        look, found = _Look(durable, group, stream, command), []
        for each in views:
            accounts = await look.at(each)
            if each.split is not None and "|" in stream and accounts[0].situation == "unknown":
                # One lane, as the view and its commands name it.
                lanes = await _Look(durable, group, split_lane(stream)[0], command).at(each)
                accounts = [one for one in lanes if one.stream == stream] or accounts
            found += accounts
        return found


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
        self._inputs: dict[tuple[TopicPartition, str], _Input] = {}

    async def at(self, view: View) -> list[Account]:
        """The accounts of a view: of the partition that has the stream, or each that may.

        In a view with lanes, one for each lane of the stream.
        """
        every = list(range(view.of.partitions))
        likely = DefaultPartitioner()(self._stream.encode(), every, every)
        # Who keyed the records of a keyed source, and how, is not known here.
        others = [number for number in every if number != likely] if view.of.keyed else []
        for number in (likely, *others):
            task = await self._task(view, number)
            if number == likely:
                first = task
            if known := self._known(task):
                return [await self._account(task, number, stream) for stream in known]
        found = [await self._account(first, likely, self._stream)]
        for number in others:
            if (await self._input(view, number, self._stream)).seen:
                found.append(await self._account(await self._task(view, number), number))
        return [each for each in found if each.situation != "unknown"] or found[:1]

    async def _task(self, view: View, number: int) -> ViewTask:
        wanted = of_stream if view.split is None else of_lanes
        return await self._durable.task(view, number, wanted(self._stream))

    def _known(self, task: ViewTask) -> list[str]:
        """The stream as the view knows it: its lanes, where it has lanes."""
        if task.view.split is not None:
            return lanes_of(task.table, self._stream)
        return [self._stream] if task.known(self._stream) else []

    async def _account(self, task: ViewTask, partition: int, stream: str | None = None) -> Account:
        durable, view = self._durable, task.view
        stream = self._stream if stream is None else stream
        source = await self._input(view, partition, stream)
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
            late=await self._late(task, stream),
            failure=await self._failure(task, stream),
            command=self._command,
        )
        return account(task, stream, around)

    async def _input(self, view: View, number: int, stream: str) -> _Input:
        source, split = view.of, view.split
        partition = TopicPartition(source.by_stream, number)
        # Views without lanes all see the same.
        whose = "" if split is None else f"{view.name}/{stream}"
        found = self._inputs.get((partition, whose))
        if found is not None:
            return found
        looked, seen, newest = 0, [], None
        async for record in self._durable.tail(partition, 20_000):
            looked += 1
            if (sequence := self._mine(view, record, stream)) is not None:
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
        self._inputs[partition, whose] = found
        return found

    def _mine(self, view: View, record: Message, stream: str) -> int | None:
        """The sequence of a record of the stream, None of any other."""
        source, split = view.of, view.split
        if not source.keyed and record.key != self._stream.encode():
            return None
        with suppress(Malformed):
            message = record if source.keyed else original(record)
            if (found := source.inspect(message)) is not None and found[0] == self._stream:
                event = Event(*found, message)
                # Of a stream that the view does not know, whatever lane it has is its.
                if split is None or stream in (self._stream, split([event])[0].stream):
                    return event.sequence
        return None

    async def _late(self, task: ViewTask, stream: str) -> tuple[Arrival, ...]:
        """The stream's last late events in the view, where the late topic has them."""
        if not task.counts.late:
            return ()
        found: list[Arrival] = []
        lane = None if task.view.split is None else split_lane(stream)[1].encode()
        async for record in self._of_view(task.view, task.view.late_topic, self._stream):
            if lane is not None and (LANE, lane) not in record.headers:
                continue
            sequence = next(v for name, v in reversed(record.headers) if name == "sequence")
            found.append(
                Arrival(
                    int(sequence), record.topic, record.partition, record.offset, record.timestamp
                )
            )
        return tuple(found[-LATE:])

    async def _failure(self, task: ViewTask, stream: str) -> str | None:
        """Why the event failed that a stream which is set aside waits with."""
        progress = task.progress(stream)
        if not isinstance(progress, Progress) or not progress.held:
            return None
        head = next((event.sequence for event in task.waits(stream)), last_of(progress))
        failure: str | None = None
        async for record in self._of_view(task.view, task.view.errors_topic, stream):
            report = orjson.loads(record.value or b"{}")
            if report.get("sequence") == head:
                failure = report.get("error")
        return failure

    async def _of_view(self, view: View, topic: str, stream: str) -> AsyncIterator[Message]:
        """The stream's records of a view at the end of a topic that all views write to."""
        key, header = stream.encode(), ("view", view.name.encode())
        async for record in self._durable.tail(TopicPartition(topic, 0), 20_000):
            if record.key == key and header in record.headers:
                yield record
