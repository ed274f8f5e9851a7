"""One stream, one step: all views of its source, by the engine that Faust runs too.

What Faust does for a partition is done here for a single stream, which is a partition of its own:
it has its own rows, its own deadlines, and its own redeliveries, which wait as rows rather than in
a topic. Nothing here knows of Spark.
"""

import asyncio
import struct
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import lru_cache
from math import inf
from time import monotonic

from topology.declaration.orders.linked_order import with_links
from topology.declaration.source import Source
from topology.declaration.timeouts import Clock
from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.engine.commands.execute import Command, aexecute
from topology.engine.commit_unit import CommitUnit, Out
from topology.engine.partition.pending_redelivery import RedeliveryQueue
from topology.engine.state.rows import decode_message, encode_message
from topology.engine.view_task import ViewTask
from topology.model.counts import Counts
from topology.model.event import Event, Record, event_of
from topology.model.partition_table import Row
from topology.spark.cells import StreamCells, ViewCells
from topology.spark.codec import Outcome, OutgoingRecord

AWAY = (b"r", b"s")
"""The key range of events that are to come again."""

_NUMBER = struct.Struct(">Q")
_COUNTS = tuple(field.name for field in fields(Counts))


class StreamStep:
    """A step of one stream.

    cells: its rows; who runs the step saves them. now: the batch's clock (ms). watermark: a time by
    which all that had arrived is in this batch or one before, None where that is not known; gaps
    are given up by it. outcome: what the step comes to. due: when the stream is to be looked at
    again (ms), infinite if there is nothing to wait for.
    """

    def __init__(
        self,
        topology: Topology,
        source: Source,
        cells: StreamCells,
        now: int,
        watermark: int | None,
    ) -> None:
        self.source = source
        self.now = now
        self.watermark = watermark
        self.outcome = Outcome()
        self.due: float = inf
        self._cells = cells
        self._views = topology.views_of(source)
        Clock.now = monotonic

    def run(self, messages: Sequence[Record], commands: Iterable[tuple[str, Command]] = ()) -> None:
        """Take the stream's messages of a batch, in order, and what operators told its views.

        commands: (view, command).
        """
        if messages and self.source.keyed:
            self._cells.partition = messages[0].partition
        events = with_links(self._events(messages), self.source.sequence.link())
        told = list(commands)
        # Before any handler has them: it may change what all views see.
        split = [None if view.split is None else view.split(events) for view in self._views]
        for view, lanes in zip(self._views, split, strict=True):
            mine = [command for name, command in told if name == view.name]
            self._run(view, events, lanes, mine)

    def _events(self, messages: Iterable[Record]) -> list[Event]:
        """What the inspection before the shuffle has let through is an event."""
        inspect, now = self.source.inspect, self.now
        events: list[Event] = []
        for message in messages:
            found = inspect(message)
            assert found is not None
            events.append(event_of(*found, message, now))
        return events

    def _run(
        self,
        view: View,
        events: list[Event],
        lanes: list[Event] | None,
        commands: Sequence[Command],
    ) -> None:
        table = self._cells.view(view.name)
        task = ViewTask(view, table, self.now, atomic=True)
        away = _read(task, table, self.now)
        task.state.counts.redelivering = before = len(away)
        if commands:
            self._obey(task, table, commands)
        task.foresee(events, lanes)
        self._step(task, table, events, self._back(task, table, away))
        # What went away in this very step may fit by now.
        while task.unfinished or (away := _read(task, table, self.now)).next(self.now) <= self.now:
            self._step(task, table, [], self._back(task, table, away))
        task.state.counts.redelivering -= before
        counts = {what: n for what in _COUNTS if (n := getattr(task.state.counts, what))}
        if counts:
            self.outcome.count(view.name, counts)
        self.due = min(self.due, task.due, away.next(self.now))

    def _back(self, task: ViewTask, table: ViewCells, away: RedeliveryQueue) -> list[Event]:
        """The events that come again now; their rows go."""
        again = away.take(self.now)
        table.write((_away_key(record.offset), None) for record in again)
        return task.take_redeliveries(again, self.now)

    def _step(
        self, task: ViewTask, table: ViewCells, events: list[Event], back: Sequence[Event]
    ) -> None:
        unit = CommitUnit(self.source.by_stream, max(self._cells.partition, 0), now=self.now)
        if task.view.is_async:
            loop().run_until_complete(task.arun(events, unit, self.watermark, back))
        else:
            task.run(events, unit, self.watermark, back)
        self._close(task, table, unit)

    def _obey(self, task: ViewTask, table: ViewCells, commands: Sequence[Command]) -> None:
        unit = CommitUnit(self.source.by_stream, max(self._cells.partition, 0), now=self.now)
        for command in commands:
            loop().run_until_complete(aexecute(task, command, unit))
        self._close(task, table, unit)

    def _close(self, task: ViewTask, table: ViewCells, unit: CommitUnit) -> None:
        """Take the unit over: rows into the cells, the rest into the outcome."""
        view = task.view
        table.write(_kept(unit.rows.get(view.name, ())))
        away = unit.colocated.pop(view.redeliver_topic, None)
        if away:
            table.write(_away(table, away))
        records = self.outcome.records
        place, inputs = self._cells.partition, self.source.partitions
        for topic, outs in unit.colocated.items():
            for key, value, _, headers in outs:
                records.append(OutgoingRecord(topic, place, inputs, key, value, list(headers)))
        for topic, outs in unit.keyed.items():
            for key, value, _, headers in outs:
                records.append(OutgoingRecord(topic, -1, inputs, key, value, list(headers)))
        self.outcome.reports += unit.reports


def _kept(rows: Iterable[Row]) -> Iterable[Row]:
    """A view's rows without its counts, which no single stream can hold."""
    return (row for row in rows if row[0] != b"c")


def _read(task: ViewTask, table: ViewCells, now: int) -> RedeliveryQueue:
    """What is away, as its rows have it; the row of what came again is gone, its number free."""
    task.state.positions.redelivered = task.state.positions.ahead = 0
    away = RedeliveryQueue(task)
    away.read((decode_message(row)[0] for _, row in table.scan(*AWAY)), now)
    return away


def _away_key(number: int) -> bytes:
    return b"r" + _NUMBER.pack(number)


def _away(table: ViewCells, outs: Iterable[Out]) -> list[Row]:
    """The rows of events that are to come again, behind those that are there."""
    first = 0
    for key, _ in table.scan(*AWAY):
        first = _NUMBER.unpack(key[1:])[0] + 1
    return [
        (_away_key(at), encode_message(Record("", 0, at, key, value, headers, time), 0))
        for at, (key, value, time, headers) in enumerate(outs, first)
    ]


@lru_cache(maxsize=1)
def loop() -> asyncio.AbstractEventLoop:
    """This process's loop, for handlers that are awaited: what they connect stays connected."""
    return asyncio.new_event_loop()
