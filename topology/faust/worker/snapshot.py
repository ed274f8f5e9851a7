"""What a rebuild begins with: where output topics end, and up to where states are told.

Outputs and changelog rows of a step become visible together, but not at the same instant: the
markers of a transaction reach its partitions one by one. So the ends of the outputs are noted
first; then how much there is in the changelogs, committed or not; and then it is waited until
all of that is committed or void. Whatever a view says beyond its state is then behind the ends that
were noted.
"""

import asyncio
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from stores.kafka_topics import partitions_there
from topology.declaration.view import View
from topology.faust.kafka.clients import admin_client, connected_consumer
from topology.faust.kafka.worker_clock import wall

Spans = dict[str, dict[int, tuple[int, int]]]
"""Topic → partition → (first offset that is there, the offset behind the last one)."""

PATIENCE = 120.0
"""Seconds that a transaction may be open; Kafka ends one after a minute unless told otherwise."""
BACK = 200_000
"""At least once, outputs may be there before the state that tells of them: so many records of a
partition are followed again, which is more than a step can write."""


class NoSnapshot(RuntimeError):
    """Why there is nothing to rebuild from; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """at: when it was begun (ms). outputs: topic → partition → the offset to follow it from.

    said: what there was of the outputs in all. changelogs: of the views by name, their topic's
    partitions. inputs: what there was of the topics that history is read from.
    """

    at: int
    outputs: dict[str, dict[int, int]]
    said: Spans
    changelogs: dict[str, Spans]
    inputs: Spans

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def snapshot_from(kept: dict[str, Any]) -> Snapshot:
    """A snapshot as JSON has it."""
    return Snapshot(
        kept["at"],
        {t: {int(p): o for p, o in each.items()} for t, each in kept["outputs"].items()},
        _spans(kept["said"]),
        {view: _spans(each) for view, each in kept["changelogs"].items()},
        _spans(kept["inputs"]),
    )


def _spans(kept: dict[str, Any]) -> Spans:
    return {t: {int(p): (s[0], s[1]) for p, s in each.items()} for t, each in kept.items()}


async def snapshot(app: Any, views: Iterable[View], history: Iterable[str]) -> Snapshot:
    """Note where the views are. history: the topics that are read for it. Raises NoSnapshot."""
    views, engine = list(views), app.engine
    names = {view.name: engine.changelogs[view.name] for view in views}
    topics = {*names.values(), *(view.output for view in views), *history}
    partitions = await _partitions(app, topics)
    outputs = [tp for view in views for tp in partitions[view.output]]
    changelogs = [tp for name in names.values() for tp in partitions[name]]
    inputs = [tp for topic in history for tp in partitions[topic]]
    async with AsyncExitStack() as stack:
        committed = await connected_consumer(app)
        stack.push_async_callback(committed.stop)
        everything = await connected_consumer(app, isolation_level="read_uncommitted")
        stack.push_async_callback(everything.stop)
        at = wall()
        ends = await committed.end_offsets(outputs)
        there = await everything.end_offsets(changelogs)
        known = await _settled(committed, there)
        firsts = await committed.beginning_offsets([*changelogs, *inputs, *outputs])
        spans = {tp: (firsts[tp], known[tp]) for tp in changelogs}
        found = await committed.end_offsets([*inputs, *outputs])
        spans |= {tp: (firsts[tp], found[tp]) for tp in (*inputs, *outputs)}
    back = 0 if engine.settings.guarantee == "exactly_once" else BACK
    starts: dict[str, dict[int, int]] = {}
    for tp in outputs:
        starts.setdefault(tp.topic, {})[tp.partition] = max(firsts[tp], ends[tp] - back)
    return Snapshot(
        at,
        starts,
        _of(spans, outputs),
        {name: _of(spans, partitions[topic]) for name, topic in names.items()},
        _of(spans, inputs),
    )


def _of(
    spans: dict[TopicPartition, tuple[int, int]], partitions: Iterable[TopicPartition]
) -> Spans:
    found: Spans = {}
    for tp in partitions:
        found.setdefault(tp.topic, {})[tp.partition] = spans[tp]
    return found


async def _settled(
    consumer: AIOKafkaConsumer, there: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The committed ends of partitions, once all that was there is committed or void."""
    deadline = time.monotonic() + PATIENCE
    while True:
        ends: dict[TopicPartition, int] = await consumer.end_offsets(list(there))
        open_ones = [tp for tp, end in there.items() if ends[tp] < end]
        if not open_ones:
            return ends
        if time.monotonic() > deadline:
            raise NoSnapshot(
                f"{open_ones[0].topic}/{open_ones[0].partition} has a transaction that has not "
                f"ended in {PATIENCE:.0f} s; check the worker that has this partition"
            )
        await asyncio.sleep(0.05)


async def _partitions(app: Any, topics: set[str]) -> dict[str, list[TopicPartition]]:
    async with admin_client(app) as admin:
        found = await partitions_there(admin, topics)
    if missing := sorted(topics.difference(found)):
        raise NoSnapshot(
            f"topic {missing[0]!r} does not exist: no worker of this topology has run here yet"
        )
    return {name: [TopicPartition(name, n) for n in range(found[name])] for name in sorted(found)}
