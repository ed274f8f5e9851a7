"""What the topics say of a view in one partition: its outputs, and what is in redelivery."""

from collections.abc import Mapping
from typing import Any

import orjson

from topology.declaration.lanes import split_lane
from topology.declaration.view import View
from topology.diagnostics.audit.finding import Findings, Violation, place_of
from topology.diagnostics.audit.outputs import Outputs
from topology.diagnostics.audit.rows import StateRows
from topology.diagnostics.audit.sequences import Sequences
from topology.diagnostics.audit.side_topics import header
from topology.diagnostics.audit.snapshot import Partition
from topology.engine.output.record_formatter import EPOCH
from topology.engine.redelivery.dead_events import dead_at
from topology.engine.redelivery.records import SEQUENCE
from topology.model.event import Message


class ViewRecords:
    """Records, as numbers of the events that they are of.

    done: stream → what has an output. passed: stream → what is of a kind that the view does not
    accept. away: stream → what is in the redelivery topic. written: how many outputs there are.
    """

    def __init__(self, view: View, place: Partition, findings: Findings, rows: StateRows) -> None:
        self.view = view
        self.place = place
        self.findings = findings
        self.rows = rows
        self.outputs = Outputs(view, findings)
        self.done: dict[str, Sequences] = {}
        self.passed: dict[str, Sequences] = {}
        self.away: dict[str, list[int]] = {}
        self.written = 0
        order = view.of.sequence
        self._start, self._step = order.start, order.step

    def passed_by(self, stream: str, number: int) -> None:
        """An event came of a kind that the view does not accept."""
        _numbers(self.passed, stream).add(number)

    def output(self, record: Message) -> None:
        """A record of the output topic."""
        numbered, epoch = b"", 0
        for name, value in record.headers:
            if name == "sequence":
                numbered = value
            elif name == EPOCH:
                epoch = int(value)
        body, sequence = orjson.loads(record.value or b""), int(numbered)
        stream = body["stream"]
        if not isinstance(body["changes"], list) or stream.__class__ is not str:
            raise ValueError("it says no row changes of a stream")
        if not self._agrees(record, body, sequence):
            what = "its key, its headers and its body do not say the same view, stream and sequence"
            self.findings.violation(
                Violation(what, place_of(record), self.view.name, stream, sequence, self.place)
            )
        rows = self.rows
        if not self.findings.exact and sequence > rows.last(stream, -(2**63) - 1):
            return
        before = self.outputs.chains.get(stream)
        if self.outputs.add(stream, sequence, record, epoch, body):
            self.written += 1
            if epoch and before is not None and epoch > before.epoch:
                # What counts is what the stream says now.
                self.done.pop(stream, None)
            done = self.done.get(stream)
            if done is None:
                done = self.done[stream] = Sequences()
            done.add((sequence - self._start) // self._step)

    def _agrees(self, record: Message, body: Mapping[str, Any], sequence: int) -> bool:
        """Whether an output record says the same in all of its parts."""
        stream = body["stream"]
        key = stream if self.view.split is None else split_lane(stream)[0]
        if body["sequence"] != sequence or body["view"] != self.view.name:
            return False
        return bool(record.key == key.encode())

    def redelivered(self, record: Message) -> None:
        """A record of the redelivery topic; what was taken back already is of no interest."""
        # One that is put back is dead until the view takes it.
        if not self.rows.positions.took(record.offset) and dead_at(record) is None:
            number = self.number(int(header(record, SEQUENCE)))
            self.away.setdefault((record.key or b"").decode(), []).append(number)

    def number(self, sequence: int) -> int:
        """An event's place in the order of its stream, from 0 on."""
        return (sequence - self._start) // self._step


def _numbers(of: dict[str, Sequences], stream: str) -> Sequences:
    found = of.get(stream)
    if found is None:
        found = of[stream] = Sequences()
    return found
