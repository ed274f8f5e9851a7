"""Reads the second stage of views with workers: what has arrived, is parked, and is done there."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from itertools import groupby
from typing import Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka.partitioner import DefaultPartitioner

from topology.declaration.ordered_stage import OrderedStage, Release, stage_of
from topology.declaration.view import View
from topology.diagnostics.explain.parked_streams import ParkedStream
from topology.diagnostics.explain.work_tally import StageTally, StreamWork, WorkTally
from topology.engine.state.rows import (
    HOLES,
    WORK,
    decode_holes,
    decode_message,
    split_buffer_key,
)
from topology.engine.state.work_status import WorkStatus, decode_work_status
from topology.faust.inspection.consumer_group import ConsumerGroup
from topology.faust.inspection.durable import DurableState, Span, TopicMissing
from topology.faust.kafka.clients import missing_topics
from topology.model.errors import Malformed
from topology.model.event import Event
from topology.ordered_commit import OffsetRanges

COUNTED = 100_000
"""Offsets of what is not committed of which the events are counted."""
_TOP = (1 << 63) - 1


class StagePartition(NamedTuple):
    """A partition of a second stage, as it is durable. rows: of parked events."""

    stage: OrderedStage
    place: TopicPartition
    span: Span
    position: int
    done: OffsetRanges
    status: WorkStatus
    rows: Mapping[bytes, bytes]

    async def arrived(self, durable: DurableState) -> AsyncGenerator[Event | Malformed]:
        """What is in the topic, is not committed, and is no command."""
        at, start = self.place, max(self.position, self.span.first)
        async for record in durable.records(at, start, self.span.end):
            if record.offset in self.done:
                continue
            try:
                event = self.stage.event(record)
            except Malformed as error:
                yield error
                continue
            if not isinstance(event, Release):
                yield event

    def parked(self) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """Each parked stream, with the sequence and time (ms) of each of its events, in order."""
        for stream, keys in groupby(sorted(self.rows), lambda key: split_buffer_key(key)[0]):
            found = []
            for key in keys:
                message, arrived = decode_message(self.rows[key])
                try:
                    inspected = self.stage.view.of.inspect_whole(message)
                except Malformed:
                    inspected = None
                found.append((-1 if inspected is None else inspected[1], arrived))
            yield stream, found


async def stage_partition(
    durable: DurableState, stage: OrderedStage, number: int
) -> StagePartition:
    """Read a partition of a second stage. What was committed before this is not said to be open."""
    at = TopicPartition(stage.topic, number)
    span = (await durable.span([at]))[at]
    rows = await durable.rows(stage.name, number, _of_work)
    position, done = span.first, OffsetRanges()
    if (row := rows.pop(HOLES, None)) is not None:
        position, done = decode_holes(row)
        if position > span.end:
            span = (await durable.span([at]))[at]
        if position > span.end:
            position, done = span.first, OffsetRanges()
    return StagePartition(
        stage, at, span, position, done, decode_work_status(rows.pop(WORK, None)), rows
    )


def _of_work(key: bytes, value: bytes) -> bool:
    return key in (HOLES, WORK) or key[:1] == b"b"


async def work_tallies(
    durable: DurableState, group: ConsumerGroup, view: View, *, count: bool = True
) -> tuple[WorkTally, ...]:
    """How the workers of a view stand, partition by partition; nothing for a view without."""
    stage = stage_of(view)
    return () if stage is None else await stage_tallies(durable, group, stage, count=count)


async def stages_alone(
    durable: DurableState, group: ConsumerGroup, *, count: bool = True
) -> list[StageTally]:
    """How what `Topology.parallel` declares stands. Raises TopicMissing."""
    return [
        StageTally(stage.name, await stage_tallies(durable, group, stage, count=count))
        for stage in await alone(durable)
    ]


async def alone(durable: DurableState) -> list[OrderedStage]:
    """What `Topology.parallel` declares. Raises TopicMissing."""
    stages = [stage for stage in durable.topology.stages if not stage.arrivals]
    for topic in await missing_topics(durable.app, [stage.topic for stage in stages]):
        raise TopicMissing(f"topic {topic!r}, which parallel() reads, does not exist; create it")
    return stages


async def stage_tallies(
    durable: DurableState, group: ConsumerGroup, stage: OrderedStage, *, count: bool = True
) -> tuple[WorkTally, ...]:
    """How the workers of a stage stand, partition by partition.

    count: whether events are counted that are not committed, or there only are some.
    """
    found = []
    for number in range(stage.partitions):
        part = await stage_partition(durable, stage, number)
        ahead = part.done.covered(part.position, _TOP)
        arrived = max(0, part.span.end - max(part.position, part.span.first)) - ahead
        counted = not arrived or (count and arrived <= COUNTED)
        oldest = None
        if arrived:
            there = 0
            async with aclosing(part.arrived(durable)) as events:
                async for event in events:
                    if not there and isinstance(event, Event):
                        oldest = event.arrived
                    there += 1
                    if not counted:
                        break
            if counted or not there:
                arrived, counted = there, True
        streams = {split_buffer_key(key)[0] for key in part.rows}
        owner = group.owners.get(part.place)
        found.append(
            WorkTally(
                number, arrived, counted, ahead, len(part.rows), len(streams), part.status, owner,
                durable.now, part.position, oldest=oldest,
            )
        )  # fmt: skip
    return tuple(found)


async def stream_work(
    durable: DurableState, group: ConsumerGroup, view: View, partition: int, stream: str
) -> StreamWork | None:
    """One stream in the second stage of its view. partition: of the view's input."""
    if (stage := stage_of(view)) is None:
        return None
    part = await stage_partition(durable, stage, _partition(stage, partition))
    arrived = []
    if counted := part.span.end - part.position <= COUNTED:
        async for event in part.arrived(durable):
            if isinstance(event, Event) and event.stream == stream:
                arrived.append(event.sequence)
    parked = tuple(sequence for sequence, _ in dict(part.parked()).get(stream, ()))
    owner = group.owners.get(part.place)
    return StreamWork(tuple(arrived), parked, part.status.halted, owner, part.status, counted)


def _partition(stage: OrderedStage, partition: int) -> int:
    return partition if stage.work.scope == "partition" else 0


async def parked_at_work(durable: DurableState, views: Iterable[View]) -> list[ParkedStream]:
    """The streams that are parked in the second stages of views, without reasons."""
    found: list[ParkedStream] = []
    for stage in (stage for view in views if (stage := stage_of(view)) is not None):
        for number in range(stage.partitions):
            for stream, events in (await stage_partition(durable, stage, number)).parked():
                sequence, arrived = events[0]
                found.append(
                    ParkedStream(
                        stage.view.name, number, stream, arrived, sequence, len(events), None
                    )
                )
    return found


async def parked_events(app: Any, view: View, stream: str) -> int:
    """How many events of a stream are parked in the second stage of a view, wherever it is."""
    stage = stage_of(view)
    if stage is None:
        return 0
    numbers = list(range(stage.partitions))
    if not view.of.keyed and stage.work.scope == "partition":
        numbers = [DefaultPartitioner()(stream.encode(), numbers, numbers)]
    async with DurableState(app) as durable:
        found = [await stage_partition(durable, stage, number) for number in numbers]
    keys = [split_buffer_key(key)[0] for part in found for key in part.rows]
    return keys.count(stream)
