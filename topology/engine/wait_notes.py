"""The events that waited in memory only: read again from the input, as their notes say."""

from collections import defaultdict
from collections.abc import Iterable

from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit
from topology.engine.redelivery.records import GONE, bury
from topology.engine.state.rows import (
    COUNTS,
    NOTES,
    Note,
    buffer_key,
    buffer_range,
    decode_note,
    decode_progress,
    encode_message,
    encode_progress,
    mark_of,
    progress_key,
    split_buffer_key,
)
from topology.model.counts import decode_counts, encode_counts, position_of
from topology.model.event import Damaged, Event, Message, Record
from topology.model.origin_headers import original
from topology.model.partition_table import PartitionTable, Row
from topology.model.printable import printable
from topology.sequencer.progress import Progress


class InputWaits:
    """Finds the events of a view that wait, and have no row, in the input that is read again.

    Args:
        view: The view.
        table: Its rows, as its changelog has them.

    Attributes:
        view: The view.
        first: The offset of the first of these events in the input.
        end: The offset behind the last one; `first` if there is none.
        rows: The rows that they would have.
    """

    def __init__(self, view: View, table: PartitionTable) -> None:
        self.view = view
        self.rows: dict[bytes, bytes] = {}
        self._table = table
        self._notes: list[bytes] = []
        self._wanted: dict[int, Note] = {}
        for key, row in table.scan(*NOTES):
            self._notes.append(key)
            for note in decode_note(row):
                if waits(table, note):
                    self._wanted[note.offset] = note
        self.first = min(self._wanted, default=0)
        self.end = max(self._wanted, default=-1) + 1

    def __bool__(self) -> bool:
        """Whether there are such events."""
        return self.first < self.end

    def take(self, records: Iterable[Message]) -> None:
        """The next records of the input."""
        wanted = self._wanted
        for record in records:
            if record.offset not in wanted or record.__class__ is Damaged:
                continue
            note = wanted[record.offset]
            # Whatever its inspector says by now, it is the event that began to wait. But a topic
            # that was made anew has other messages there.
            if record.timestamp == note.timestamp and mark_of(record) == note.mark:
                del wanted[record.offset]
                message = record if self.view.of.keyed else original(record)
                key = buffer_key(note.stream, note.sequence)
                self.rows[key] = encode_message(message, note.arrived)

    def save(self, unit: CommitUnit) -> None:
        """When all is read: make rows of what waits, in a unit. What was not found is dead, as
        nobody has it any more: its sequence is missing again."""
        rows: list[Row] = [*self.rows.items(), *((key, None) for key in self._notes)]
        if self._wanted:
            rows += self._give_up(unit)
        unit.rows[self.view.name] = rows

    def _give_up(self, unit: CommitUnit) -> list[Row]:
        table, view, rows = self._table, self.view, list[Row]()
        streams: dict[str, list[Note]] = defaultdict(list)
        for note in self._wanted.values():
            streams[note.stream].append(note)
            there = Record(*unit.place, note.offset, None, None, (), note.timestamp)
            event = Event(note.stream, note.sequence, None, None, there, note.arrived)
            bury(view, event, GONE, unit)
        row = table.get(COUNTS)
        counts, position = decode_counts(row), position_of(row)
        found = {split_buffer_key(key)[0] for key in self.rows}
        for stream, gone in streams.items():
            progress, state = _progress(table, stream)
            assert progress is not None
            if progress.held and progress.retry is None:
                counts.parked -= len(gone)
            else:
                counts.waiting -= len(gone)
            if stream not in found and not any(True for _ in table.scan(*buffer_range(stream))):
                progress.held, progress.retry = False, None
                rows.append((progress_key(stream), encode_progress(progress.plain(), state)))
        counts.dead += len(self._wanted)
        rows.append((COUNTS, encode_counts(counts, position)))
        stream, gone = next(iter(streams.items()))
        unit.reports.append(
            f"view {view.name}: {len(self._wanted)} events go to {view.dead_topic}, the first of "
            f"them stream {printable(stream)} sequence {gone[0].sequence}: {GONE}; send them again"
        )
        return rows


def waits(table: PartitionTable, note: Note) -> bool:
    """Whether an event of which there is a note still waits, without a row."""
    progress, _ = _progress(table, note.stream)
    if progress is None or note.sequence <= progress.last:
        return False
    return table.get(buffer_key(note.stream, note.sequence)) is None


def _progress(table: PartitionTable, stream: str) -> tuple[Progress | None, bytes | None]:
    """(the progress of a stream that waits, its state); of any other stream, None."""
    row = table.get(progress_key(stream))
    progress, state = (None, None) if row is None else decode_progress(row)
    # Of a stream that waits it is noted since when.
    return (progress if isinstance(progress, Progress) and progress.since else None), state
