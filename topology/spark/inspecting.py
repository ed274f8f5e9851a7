"""Inspection in Spark's Python workers: messages in, rows by stream out.

A row has a place, by which Spark groups, and one value whose first byte says what it is. All that
a stream has in one batch of Arrow is one row. What became of messages that are no events has a
place too, only so that it gets through.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import orjson
import pyarrow as pa

from topology.declaration.lanes import split_lane
from topology.declaration.source import Source
from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.engine.commands.command import Command, CommandRefused, CommandResult, decode_command
from topology.engine.commit_unit import CommitUnit
from topology.engine.intake import IntakeCounts
from topology.engine.stream_task import malformed, unknown
from topology.model.counted import counted
from topology.model.errors import Malformed
from topology.model.event import Record
from topology.spark.codec import Outcome, OutgoingRecord, encode_messages, encode_outcome
from topology.spark.messages import messages_of
from topology.spark.reference import Reference

MESSAGES, COMMANDS, OUTCOME = b"m", b"c", b"o"
"""What a row's value is: messages of a stream, commands to it, or an outcome."""
ROWS = "place string, packed binary"


class Inspection:
    """Inspects one partition of a batch, as `mapInArrow` wants it."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topology = self.reference.load()
        for batch in batches:
            found = inspected(topology, messages_of(batch))
            columns = [pa.array([p for p, _ in found]), pa.array([v for _, v in found])]
            if found:
                yield pa.RecordBatch.from_arrays(columns, names=["place", "packed"])


def inspected(topology: Topology, records: Iterable[Record]) -> list[tuple[str, bytes]]:
    """The rows of some messages: (place, value)."""
    sources = {topic: source for source in topology.sources.values() for topic in source.topics}
    views = {view.commands_topic: view for view in topology.views.values()}
    viewed = {view.of.name for view in topology.views.values()}
    events: dict[str, list[Record]] = {}
    commands: dict[str, list[Record]] = {}
    taken: dict[str, IntakeCounts] = {}
    removed: Counter[str] = Counter()
    unit, outcome = CommitUnit("", 0), Outcome()
    last: Record | None = None
    for last in records:
        source = sources.get(last.topic)
        if source is None:
            if (view := views.get(last.topic)) is None:
                removed[last.topic] += 1  # since the batch was planned
            else:
                _command(view, last, commands, outcome)
            continue
        of = taken.get(source.name)
        if of is None:
            of = taken[source.name] = IntakeCounts()
        of.read += 1
        try:
            stream = _stream(source, last)
        except Malformed as reason:
            of.malformed += 1
            malformed(topology, last, unit, reason, 0)
            continue
        if stream is None:
            of.unknown += 1
            unknown(topology, source, last, unit, 0)
        elif source.name in viewed:
            events.setdefault(place_of(source, stream), []).append(last)
    rows = [(place, MESSAGES + encode_messages(found)) for place, found in events.items()]
    rows += [(place, COMMANDS + encode_messages(found)) for place, found in commands.items()]
    outcome.reports += [
        f"{topic}: {counted(number, 'record')} of a view or a source that was taken out"
        for topic, number in removed.items()
    ]
    for name, of in taken.items():
        outcome.count(f"<{name}", asdict(of))
    for topic, outs in unit.keyed.items():
        outcome.records += [
            OutgoingRecord(topic, -1, 1, out[0], out[1], list(out[3])) for out in outs
        ]
    if outcome and last is not None:
        rows.append((f"\0{last.topic}/{last.partition}", OUTCOME + encode_outcome(outcome)))
    return rows


def _stream(source: Source, message: Record) -> str | None:
    """The stream of a message, None where it is unknown. Raises Malformed."""
    found = source.inspect(message)
    if found is None:
        return None
    order, (stream, sequence, *_) = source.sequence, found
    if sequence < order.start or (sequence - order.start) % order.step:
        raise Malformed(
            f"the sequence {sequence} is not one of {order.start}, {order.start + order.step}, …"
        )
    return stream


def place_of(source: Source, stream: str) -> str:
    """What the messages of a stream are grouped by."""
    return f"{source.name}\0{stream}"


def at_place(place: str) -> tuple[str, str]:
    """(source, stream); the source is empty where the place is no stream's."""
    source, _, stream = place.partition("\0")
    return source, stream


def _command(
    view: View, record: Record, commands: dict[str, list[Record]], outcome: Outcome
) -> None:
    """Send a command to its stream; what is for a whole view or another runtime is refused."""
    try:
        command = decode_command(record.value)
        stream = _stream_of(view, command, record)
    except ValueError as error:
        outcome.reports.append(f"view {view.name}: {record.topic} at {record.offset}: {error}")
    except CommandRefused as reason:
        refused: dict[str, Any] = asdict(CommandResult(False, str(reason), reason.facts))
        body = orjson.dumps({"when": record.timestamp, **asdict(command), **refused})
        key = (command.stream or command.view).encode()
        headers: list[tuple[str, bytes | None]] = [("view", command.view.encode())]
        outcome.records.append(OutgoingRecord(view.audit_topic, -1, 1, key, body, headers))
        outcome.reports.append(f"{command.name} by {command.who}: {reason}")
    else:
        commands.setdefault(place_of(view.of, stream), []).append(record)


def _stream_of(view: View, command: Command, record: Record) -> str:
    """The stream that a command is for. Raises CommandRefused."""
    if not command.stream or command.name in ("halt", "resume"):
        raise CommandRefused(
            f"{command.name} is for all of view {view.name}, which runs on Spark: commands there "
            "are for one stream; stop the query, or name a stream"
        )
    if command.everywhere and record.partition:
        # A copy for a partition that might have had it: the first one finds it wherever it is.
        raise CommandRefused(
            f"view {view.name} has no stream {command.stream!r} in this partition alone"
        )
    stream = view.stream_id(command.stream)
    return stream if view.split is None else split_lane(stream)[0]
