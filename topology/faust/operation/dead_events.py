"""Put dead events back: the dead topic is read, and what is chosen sent to the redelivery topic.

What was put back before is known from the view's rows, and from what it did not take yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson
from aiokafka import TopicPartition
from aiokafka.partitioner import DefaultPartitioner

from topology.declaration.lanes import split_lane
from topology.declaration.view import View
from topology.diagnostics.explain import Fold
from topology.engine.redelivery.dead_events import (
    DeadEvent,
    DeadEventFilter,
    DeadEventSearch,
    dead_at,
    find_dead,
    put_back,
)
from topology.engine.state.positions import decode_positions
from topology.engine.state.rows import POSITIONS, decode_progress, progress_key, split_redriven_key
from topology.faust.inspection.durable import DurableState
from topology.faust.inspection.named import view_of
from topology.faust.kafka.broker.clock import agree_on_time
from topology.faust.kafka.worker_clock import wall
from topology.faust.operation.command_sender import who
from topology.faust.operation.recorded_sends import RecordedSends, in_parts
from topology.model.counted import counted
from topology.model.event import Message, Record
from topology.model.printable import printable
from topology.sequencer.progress import last_of

SHOWN = 50
"""Streams that the answer names."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """What was put back, or would be. stands: stream → its last processed sequence."""

    view: str
    found: DeadEventSearch
    stands: Mapping[str, int]
    dry_run: bool

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        found = self.found
        return {
            "view": self.view,
            "dry_run": self.dry_run,
            "events": len(found.chosen),
            "streams": found.streams,
            "stands": self.stands,
            "others": found.others,
            "before": found.before,
            "passed": found.passed,
            "gone": found.gone,
            "foreign": found.foreign,
        }

    def __str__(self) -> str:
        found, streams = self.found, self.found.streams
        done = "would be put back" if self.dry_run else "put back, to come again in order"
        dead, of = counted(len(found.chosen), "dead event"), counted(len(streams), "stream")
        lines = [f"view {self.view}: {dead} of {of} {done}"]
        for stream, sequences in list(streams.items())[:SHOWN]:
            at = self.stands.get(stream)
            stands = "which the view does not know" if at is None else f"which stands at {at}"
            ends = f"{sequences[0]}" + (f" to {sequences[-1]}" if len(sequences) > 1 else "")
            passed = 0 if at is None else sum(sequence <= at for sequence in sequences)
            late = f"; {passed} of them late, as it has passed them" if passed else ""
            count = counted(len(sequences), "event")
            lines.append(f"  {printable(stream)}, {stands}: {count}, {ends}{late}")
        if len(streams) > SHOWN:
            lines.append(f"  … and {counted(len(streams) - SHOWN, 'more stream')}")
        for number, one, many in (
            (
                found.others,
                "other dead event of the view stays",
                "other dead events of the view stay",
            ),
            (found.before, "was put back before", "were put back before"),
            (
                found.passed,
                "stays: its stream has passed it, and no worker would get it again",
                "stay: their streams have passed them, and no worker would get them again",
            ),
            (
                found.gone,
                "stays: nobody has its body; send it again",
                "stay: nobody has their bodies; send them again",
            ),
            (
                found.foreign,
                "record of the topic is no dead event",
                "records of the topic are no dead events",
            ),
        ):
            if number:
                lines.append(f"  {counted(number, one, many)}")
        return "\n".join(lines)


async def redrive_dead(
    app: Any,
    *,
    view: str = "",
    stream: str | None = None,
    reason: str = "",
    older_than: float = 0.0,
    dry_run: bool = False,
    why: str = "",
) -> Redriven:
    """Put events of the dead topic back into their view, in order, each once.

    Args:
        app: what `compile` made; no worker is needed, and none is disturbed.
        view: the view's name; may be left out where there is only one.
        stream: only those of this stream.
        reason: only those that are dead for a reason with this text.
        older_than: only those that have been dead for so many seconds.
        dry_run: say only what would be put back.
        why: for the record.

    Returns:
        What was put back, and where its streams stand.

    Raises:
        KeyError: there is no such view.
        TopicMissing: no worker of the topology has run yet.
        CannotAnswer: the broker does not take them.
    """
    await agree_on_time(app)
    before = wall() - round(older_than * 1000) if older_than else None
    choice = DeadEventFilter(stream, reason or None, before)
    return await _redrive(app, view_of(app, view), choice, dry_run=dry_run, why=why)


async def _redrive(
    app: Any, view: View, choice: DeadEventFilter, *, dry_run: bool, why: str
) -> Redriven:
    async with DurableState(app) as durable:
        dead = TopicPartition(view.dead_topic, 0)
        span = (await durable.span([dead]))[dead]
        records = [
            record
            async for record in durable.records(dead, span.first, span.end)
            if _may_be(record, view)
        ]
        done: set[int] = set()
        stands: dict[str, int] = {}
        streams = {(record.key or b"").decode("utf-8", "replace") for record in records}
        for number in range(view.of.partitions):
            await _look(durable, view, number, streams, done, stands)
        found = find_dead(view, records, choice, done, stands)
        chosen = found.streams
        known = {stream: at for stream, at in stands.items() if stream in chosen}
        made = Redriven(view.name, found, known, dry_run)
        if not dry_run and found.chosen:
            await _send(app, view, made, durable.now, why)
        return made


def _may_be(record: Message, view: View) -> bool:
    """Whether a record is of the view; one without any is told of as foreign."""
    names = [value for name, value in record.headers if name == "view"]
    return not names or names[-1] == view.name.encode()


async def _look(
    durable: DurableState,
    view: View,
    number: int,
    streams: set[str],
    done: set[int],
    stands: dict[str, int],
) -> None:
    """What a partition of the view knows of dead events, and where their streams stand in it."""
    keys = {progress_key(stream) for stream in streams}
    fold = Fold(lambda key, _: key[:1] == b"x" or key == POSITIONS or key in keys)
    changelog = TopicPartition(durable.app.engine.changelogs[view.name], number)
    away = TopicPartition(view.redeliver_topic, number)
    span = await durable.span([changelog, away])
    async for record in durable.records(changelog, span[changelog].first, span[changelog].end):
        fold.take(record.key or b"", record.value)
    positions = decode_positions(fold.rows.get(POSITIONS))
    for key, row in fold.rows.items():
        if key[:1] == b"x":
            done.add(split_redriven_key(key))
        elif key in keys:
            stands[key[1:].decode()] = last_of(decode_progress(row)[0])
    first = max(span[away].first, positions.redelivered)
    async for record in durable.records(away, first, span[away].end):
        at = dead_at(record)
        if at is not None and not positions.took(record.offset):
            done.add(at)


async def _send(app: Any, view: View, made: Redriven, now: int, why: str) -> None:
    chosen, name = made.found.chosen, view.name.encode()
    record = {
        "id": uuid4().hex, "name": "redrive-dead", "view": view.name, "who": who(), "why": why,
        "given": now, "when": now, "done": True,
    }  # fmt: skip
    async with RecordedSends(app, f"redrive-dead-{view.name}") as sends:
        for end, part in in_parts(chosen):
            every = counted(len(chosen), "dead event")
            record["message"] = f"view {view.name}: {end:,} of {every} put back"
            record["facts"] = {"offsets": [dead.at for dead in part]}
            body = orjson.dumps(record)
            told = Record(view.audit_topic, 0, 0, name, body, [("view", name)], now)
            await sends.send([*(_back(view, dead, now) for dead in part), told])


def _back(view: View, dead: DeadEvent, now: int) -> Record:
    key, value, timestamp, headers = put_back(dead, now)
    place = view.redeliver_topic, _partition(view, dead)
    return Record(*place, 0, key, value, headers, timestamp)


def _partition(view: View, dead: DeadEvent) -> int:
    """Where the stream of a dead event is: in a keyed source, where its message came from."""
    if view.of.keyed:
        return dead.input
    every = list(range(view.of.partitions))
    own = dead.stream if view.split is None else split_lane(dead.stream)[0]
    return int(DefaultPartitioner()(own.encode(), every, every))
