"""One partition of a source: inspects each message for its event, and runs the views.

A message of a source that is not keyed is inspected twice: by RekeyTask for the key, and by
StreamTask, from the by-stream topic, for the event.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from topology.declaration.orders.linked_order import with_links
from topology.declaration.side_topics import SideTopics
from topology.declaration.source import Source
from topology.declaration.topology import Topology
from topology.engine.commit_unit import CommitUnit
from topology.engine.intake import IntakeCounts, MalformedAlarm, encode_intake
from topology.engine.state.plausible import ALWAYS
from topology.engine.state.positions import encode_positions
from topology.engine.state.rows import POSITIONS
from topology.engine.state.short_waits import WaitLimits
from topology.engine.view_task import ViewTask
from topology.inspectors.inspector import Several
from topology.model.errors import Malformed, described
from topology.model.event import Damaged, Draft, Event, Message
from topology.model.large import too_large
from topology.model.origin_headers import ORIGIN, ORIGIN_KEY, REASON, origin, original
from topology.model.partition_table import PartitionTable
from topology.model.printable import printable
from topology.sequencer.memory_budget import Budget

SAMPLE = 300
"""Characters that are told of a malformed message."""


class StreamTask:
    """Views of one source over one partition of their input; they read it together.

    tables: view name → its table for this partition, of the views that the task runs. position: the
    input offset that they are at. intake: what became of the messages up to there. apart: its
    views read again what the partition's main task reads, which sees to the group's offset and to
    messages that are no events. now: the clock (ms), which stored times are held against. budget:
    of memory for what waits, over all views of the partition. limits: how much of the input may be
    read again at a start, for events that wait in memory only; None where it cannot be. atomic:
    whether each of its commit units is one transaction.
    """

    def __init__(
        self,
        topology: Topology,
        source: Source,
        partition: int,
        tables: Mapping[str, PartitionTable],
        *,
        position: int = 0,
        intake: IntakeCounts | None = None,
        apart: bool = False,
        now: int = ALWAYS,
        budget: Budget | None = None,
        limits: WaitLimits | None = None,
        atomic: bool = False,
    ) -> None:
        self.topology = topology
        self.source = source
        self.partition = partition
        self.position = position
        self.intake = IntakeCounts() if intake is None else intake
        self.apart = apart
        self.joined = False
        """Whether a view reads with the others of which its row does not say so yet."""
        self._alarm = MalformedAlarm()
        self._link = source.sequence.link()
        self._records: list[Message] = []
        """Those of the events in hand, where the input is not the topic that they are from."""
        self.views = {
            view.name: ViewTask(view, tables[view.name], now, budget, limits, atomic)
            for view in topology.views_of(source)
            if view.name in tables
        }
        for task in self.views.values():
            task.state.position = position

    @property
    def due(self) -> float:
        """The earliest deadline of a gap in any view (ms), infinite if there is none."""
        return min((task.due for task in self.views.values()), default=float("inf"))

    @property
    def unfinished(self) -> bool:
        """Whether a view has a drain to go on with before it takes more."""
        return any(task.unfinished for task in self.views.values())

    def inspect(self, records: Iterable[Message], unit: CommitUnit, now: int) -> list[Event]:
        """Make events of messages; what none can be made of goes to its topic, by way of `unit`."""
        inspect, start, add = (
            self.source.inspect_whole,
            self.source.sequence.start,
            self.source.sequence.step,
        )
        restore = not self.source.keyed
        events: list[Event] = []
        append = events.append
        inputs = self._records = list[Message]()
        several: Several | None = getattr(inspect, "several", None)
        rest = iter(records)
        if several is not None and not restore and add == 1:
            rest = iter(partial(several, rest, start, now, append), None)
        for record in rest:
            message = original(record) if restore else record
            try:
                if message.__class__ is Damaged:
                    raise Malformed(message.reason)
                found = inspect(message)
                if found is None:
                    unknown(self.topology, self.source, message, unit, now)
                    continue
                stream, sequence, kind, content = found
                if sequence < start or (add != 1 and (sequence - start) % add):
                    raise Malformed(
                        f"the sequence {sequence} is not one of {start}, {start + add}, …"
                    )
            except Exception as error:
                malformed(self.topology, message, unit, _reason(error), now)
                continue
            event = Draft(stream, sequence, kind, content, message, now)
            event.__class__ = Event
            append(event)  # type: ignore[arg-type]
            if restore:
                inputs.append(record)
        return with_links(events, self._link)

    def inputs(self, events: Iterable[Event]) -> Iterable[Message]:
        """The records of the input that the events are of, which were inspected last."""
        return [event.message for event in events] if self.source.keyed else self._records

    def begin(self, records: Sequence[Message], now: int) -> tuple[CommitUnit, list[Event]]:
        """Open a unit with a batch of this partition's records, read at `now` (ms)."""
        unit = CommitUnit(self.source.by_stream, self.partition, now=now)
        noted = CommitUnit(*unit.place) if self.apart else unit
        events = self.inspect(records, noted, now)
        for task in self.views.values():
            task.foresee(events)
            if (short := task.state.short) is not None:
                short.begin(events, None if self.source.keyed else self._records, now)
        if records:
            self.intake.take(len(records), noted.malformed, noted.unknown)
            told = self._alarm.note(len(records), noted.malformed)
            if told is not None and not self.apart:
                unit.reports.append(mostly_malformed(self.topology, self.source, told, unit))
            self.move(records[-1].offset + 1, unit)
        return unit, events

    def move(self, position: int, unit: CommitUnit) -> None:
        """All before an input offset is read: say so in the unit that makes it so."""
        self.position = position
        for view in self.views.values():
            if view.state.positions.halted is None:
                view.state.position = position
        if not self.apart:
            unit.next_offset = position
            unit.intake = encode_intake(self.intake)

    def finish(self, unit: CommitUnit) -> None:
        """Close a unit when all views have run: where they read goes with it.

        A view that was halted in this unit leaves the others: it has a position of its own now.
        """
        self._records = []
        for name, task in self.views.items():
            positions = task.state.positions
            if (short := task.state.short) is not None:
                short.let_go()
            if self.apart or positions.halted is not None:
                positions.input = self.position
            elif task.state.noted not in (None, self.position):
                # What it had nothing to say of, as markers, is not what it has not read.
                task.state.note(unit, [])
            row = encode_positions(positions)
            if row != task.state.positions_row:
                task.state.positions_row = row
                unit.rows.setdefault(name, []).append((POSITIONS, row))
        self.joined = False

    def admit(self, name: str, task: ViewTask) -> None:
        """Take in a view that has read as far by itself: from here on it reads with the others."""
        self.views[name] = task
        task.state.position = self.position
        positions = task.state.positions
        self.joined |= positions.input is not None
        positions.input = None
        if positions.began is not None and positions.missed is None:
            # Of what came before here, all that it received came since it began.
            positions.missed = max(0, self.intake.events - task.state.counts.came)

    def dismiss(self) -> dict[str, ViewTask]:
        """Take out the views that were halted; call it when the unit that says so is durable."""
        halted = {
            n: task for n, task in self.views.items() if task.state.positions.halted is not None
        }
        for name in halted:
            del self.views[name]
        return halted

    def process(
        self, records: Sequence[Message], now: int, horizon: int | None = None
    ) -> CommitUnit:
        """One step of all views, for handlers that are plain functions.

        now: the wall clock. horizon: a time by which all that had arrived has been read, if a gap
        may be given up; see `sequencer.step`.
        """
        unit, events = self.begin(records, now)
        for task in self.views.values():
            task.run(events, unit, horizon)
        self.finish(unit)
        return unit


class RekeyTask:
    """Re-keys one partition of a source's topics to the by-stream topic.

    intake: what became of the messages so far; it has no other state.
    """

    def __init__(
        self, topology: Topology, source: Source, intake: IntakeCounts | None = None
    ) -> None:
        self.topology = topology
        self.source = source
        self.intake = IntakeCounts() if intake is None else intake
        self._alarm = MalformedAlarm()

    def process(self, records: Sequence[Message], now: int) -> CommitUnit:
        """One step: each message once, to the by-stream, unknown or malformed topic."""
        last = records[-1]
        unit = CommitUnit(last.topic, last.partition, last.offset + 1)
        by_stream = unit.keyed[self.source.by_stream]
        inspect = self.source.inspect_whole
        for record in records:
            try:
                if record.__class__ is Damaged:
                    raise Malformed(record.reason)
                found = inspect(record)
            except Exception as error:
                malformed(self.topology, record, unit, _reason(error), now)
                continue
            if found is None:
                unknown(self.topology, self.source, record, unit, now)
                continue
            headers = [*record.headers, (ORIGIN, origin(record))]
            if record.key is not None:
                headers.append((ORIGIN_KEY, record.key))
            # The record is new, for retention and for whoever reads the topic; the message's own
            # timestamp is in its origin.
            by_stream.append((found[0].encode(), record.value, now, headers))
        self.intake.take(len(records), unit.malformed, unit.unknown)
        if (told := self._alarm.note(len(records), unit.malformed)) is not None:
            unit.reports.append(mostly_malformed(self.topology, self.source, told, unit))
        unit.intake = encode_intake(self.intake)
        return unit


def _reason(error: Exception) -> Malformed:
    """Why a message is malformed. Inspectors raise nothing else; a fault in one stops no worker."""
    if isinstance(error, Malformed):
        return error
    return Malformed(f"the inspector failed: {described(error)}")


def malformed(
    topology: SideTopics, message: Message, unit: CommitUnit, reason: Malformed, now: int
) -> None:
    """Send a message to the malformed topic, with the reason; of one that is too large for that,
    only where it was."""
    text = str(reason).encode("utf-8", "backslashreplace")[:4000]
    told = [(REASON, text), (ORIGIN, origin(message))]
    if too_large(message) is None:
        out = message.key, message.value, now, [*message.headers, *told]
    else:
        out = None, None, now, told
    unit.keyed[topology.malformed_topic].append(out)
    unit.malformed += 1


def mostly_malformed(
    topology: Topology, source: Source, told: IntakeCounts, unit: CommitUnit
) -> str:
    """What to say of a source of which nearly nothing becomes an event, with the last one."""
    sample = ""
    if records := unit.keyed.get(topology.malformed_topic):
        _, value, _, headers = records[-1]
        body, found = (value or b"").decode("utf-8", "replace"), dict(headers)
        sample = (
            f"; the last one, {printable(found[ORIGIN].decode())}: "
            f"{printable(found[REASON].decode(), SAMPLE)}: {printable(body, SAMPLE)}"
        )
    return (
        f"source {source.name}: {told.malformed} of the last {told.read} messages are malformed "
        f"({told.malformed_share:.0%}): does its inspector fit, {source.inspector!r}{sample}; "
        f"they are in {topology.malformed_topic}"
    )


def unknown(
    topology: Topology, source: Source, message: Message, unit: CommitUnit, now: int
) -> None:
    """Pass an unknown message by, or send it to the unknown topic if the source says so."""
    unit.unknown += 1
    if source.unknown == "topic":
        headers = [*message.headers, (ORIGIN, origin(message))]
        unit.keyed[topology.unknown_topic].append((message.key, message.value, now, headers))
