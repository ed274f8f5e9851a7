"""The stateful processor: Spark calls it for each stream of a batch, and when a timer is due."""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)

from topology.declaration.topology import Topology
from topology.engine.commands.command import Command, decode_command
from topology.model.event import Record
from topology.spark.cells import StreamCells
from topology.spark.codec import decode_messages, encode_outcome, in_order
from topology.spark.inspecting import COMMANDS, MESSAGES, at_place
from topology.spark.reference import Reference
from topology.spark.step import StreamStep

WATERMARK = "sequitur.watermark"
"""The local property by which a batch's tasks learn its watermark (ms)."""
OUTCOMES = "packed binary"


class StreamProcessor(StatefulProcessor):
    """Takes the rows of inspection by place, and returns a row with the outcome for each."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._value = _Value(handle.getValueState("rows", "value binary"))
        self._cells = _Cells(handle.getMapState("more", "key binary", "value binary"))
        context = TaskContext.get()
        watermark = None if context is None else context.getLocalProperty(WATERMARK)
        self._watermark = int(watermark) if watermark else None
        self._topology: Topology | None = None

    def handleInputRows(
        self, key: Any, rows: Iterator[Any], timerValues: TimerValues
    ) -> Iterator[Row]:
        source, _ = at_place(key[0])
        if not source:
            for row in rows:
                yield Row(packed=bytes(row.packed)[1:])
            return
        messages: list[Record] = []
        commands: list[Record] = []
        for row in rows:
            value = bytes(row.packed)
            kind = value[:1]
            if kind == MESSAGES:
                messages += decode_messages(value[1:])
            elif kind == COMMANDS:
                commands += decode_messages(value[1:])
        yield from self._step(source, messages, commands, timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        source, _ = at_place(key[0])
        expired = expiredTimerInfo.getExpiryTimeInMs()
        yield from self._step(source, [], [], timerValues, expired)

    def _step(
        self,
        name: str,
        messages: list[Record],
        commands: list[Record],
        times: TimerValues,
        expired: int = 0,
    ) -> Iterator[Row]:
        topology = self._topology = self._topology or self.reference.load()
        source = topology.sources.get(name)
        if source is None or not topology.views_of(source):
            return
        cells = StreamCells(self._value, self._cells)
        now = times.getCurrentProcessingTimeInMs()
        step = StreamStep(topology, source, cells, now, self._watermark)
        told = _commands(topology, in_order(commands), step.outcome.reports)
        step.run(in_order(messages), told)
        self._watch(cells, step.due, now, expired)
        cells.save()
        if step.outcome:
            yield Row(packed=encode_outcome(step.outcome))

    def _watch(self, cells: StreamCells, due: float, now: int, expired: int) -> None:
        """Have one timer set for the stream, at its deadline.

        What is due already waits for the watermark, which the next batch may bring. `expired` is
        deleted by Spark after this call, so it must not be set again.
        """
        at = 0 if due == inf else max(int(due), now + 1)
        if cells.timer and cells.timer != expired:
            if cells.timer == at:
                return
            self._handle.deleteTimer(cells.timer)
        if at:
            self._handle.registerTimer(at)
        cells.timer = at


def _commands(
    topology: Topology, records: Iterable[Record], reports: list[str]
) -> list[tuple[str, Command]]:
    """(view, command) of the records of commands topics. Those of no view are reported."""
    views = {view.commands_topic: view.name for view in topology.views.values()}
    found = []
    for record in records:
        if (view := views.get(record.topic)) is None:
            reports.append(f"{record.topic} at {record.offset}: its view was taken out")
        else:
            found.append((view, decode_command(record.value)))
    return found


class _Value:
    def __init__(self, state: ValueState) -> None:
        self._state = state

    def get(self) -> bytes | None:
        found = self._state.get()
        return None if found is None else bytes(found[0])

    def set(self, value: bytes) -> None:
        self._state.update((value,))

    def clear(self) -> None:
        self._state.clear()


class _Cells:
    def __init__(self, state: MapState) -> None:
        self._state = state

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        return ((bytes(key[0]), bytes(value[0])) for key, value in self._state.iterator())

    def put(self, key: bytes, value: bytes) -> None:
        self._state.updateValue((key,), (value,))

    def remove(self, key: bytes) -> None:
        self._state.removeKey((key,))
