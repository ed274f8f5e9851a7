"""A view's state in one partition, as the rows of its changelog tell it."""

from topology.diagnostics.audit.finding import Place, place_of
from topology.engine.state.positions import Positions, decode_positions
from topology.engine.state.rows import (
    COUNTS,
    POSITIONS,
    decode_note,
    decode_progress,
    split_buffer_key,
    split_redriven_key,
)
from topology.engine.state.view_state import is_parked
from topology.model.counts import Counts, decode_counts
from topology.model.event import Message
from topology.sequencer.progress import Progress, last_of


class StateRows:
    """What an audit needs of the rows. counts: None before the view's first step. counted: where
    that row lies. waits: stream → the sequences that have a row. asked: stream → late
    events that it is to be rebuilt with. redriven: the offsets of dead events that were put back.
    """

    def __init__(self) -> None:
        self.counts: Counts | None = None
        self.counts_row: bytes | None = None
        self.counted: Place | None = None
        self.positions = Positions()
        self.streams: dict[str, int | Progress] = {}
        self.waits: dict[str, set[int]] = {}
        self.asked: dict[str, set[int]] = {}
        self.redriven: set[int] = set()
        self._notes: dict[bytes, bytes | None] = {}

    def row(self, record: Message) -> None:
        """A record of the changelog, in order; a null value deletes the row."""
        key, value = record.key or b"", record.value
        kind = key[:1]
        if kind == b"p":
            stream = key[1:].decode()
            if value is None:
                self.streams.pop(stream, None)
            else:
                self.streams[stream] = decode_progress(value)[0]
        elif kind == b"b":
            _held(self.waits, key, value)
        elif kind == b"r":
            _held(self.asked, key, value)
        elif kind == b"x":
            self.redriven.add(split_redriven_key(key))
        elif kind == b"m":
            self._notes[key] = value
        elif key == COUNTS:
            self.counts, self.counted = decode_counts(value), place_of(record)
            self.counts_row = value
        elif key == POSITIONS:
            self.positions = decode_positions(value)

    def take_notes(self) -> None:
        """When all rows are read: what waits in memory only waits too."""
        for row in self._notes.values():
            for note in decode_note(row) if row else ():
                found = self.streams.get(note.stream)
                if isinstance(found, Progress) and found.since and note.sequence > found.last:
                    self.waits.setdefault(note.stream, set()).add(note.sequence)

    def last(self, stream: str, unknown: int) -> int:
        """The last processed sequence, `unknown` for a stream that the view does not know."""
        found = self.streams.get(stream)
        return unknown if found is None else last_of(found)

    def skipped(self, stream: str) -> tuple[tuple[int, int], ...]:
        """The ranges of sequences that were given up, as far as they are remembered."""
        found = self.streams.get(stream)
        return found.skipped if isinstance(found, Progress) else ()

    def forgot(self, stream: str, none: int) -> int:
        """The highest of those that are not remembered, `none` if all are."""
        found = self.streams.get(stream)
        known = found.forgot if isinstance(found, Progress) else None
        return none if known is None else known

    def epoch(self, stream: str) -> int:
        """How often the stream was rebuilt."""
        found = self.streams.get(stream)
        return found.epoch if isinstance(found, Progress) else 0

    def parked(self, stream: str) -> bool:
        """Whether the stream is set aside until somebody says so."""
        found = self.streams.get(stream)
        return found is not None and is_parked(found)


def _held(streams: dict[str, set[int]], key: bytes, value: bytes | None) -> None:
    """A row that an event has, or has no more."""
    stream, sequence = split_buffer_key(key)
    if value is not None:
        streams.setdefault(stream, set()).add(sequence)
    elif stream in streams:
        streams[stream].discard(sequence)
        if not streams[stream]:
            del streams[stream]
