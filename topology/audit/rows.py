"""A view's state in one partition, as the rows of its changelog tell it."""

from topology.audit.finding import Place, place_of
from topology.counts import Counts, decode_counts
from topology.event import Message
from topology.positions import Positions, decode_positions
from topology.progress import Progress, last_of
from topology.rows import COUNTS, POSITIONS, decode_progress, split_buffer_key
from topology.view_state import is_parked


class StateRows:
    """What an audit needs of the rows. counts: None before the view's first step. counted: where
    that row lies. waits: stream → the sequences that have a row.
    """

    def __init__(self) -> None:
        self.counts: Counts | None = None
        self.counted: Place | None = None
        self.positions = Positions()
        self.streams: dict[str, int | Progress] = {}
        self.waits: dict[str, set[int]] = {}

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
            stream, sequence = split_buffer_key(key)
            if value is not None:
                self.waits.setdefault(stream, set()).add(sequence)
            elif stream in self.waits:
                self.waits[stream].discard(sequence)
                if not self.waits[stream]:
                    del self.waits[stream]
        elif key == COUNTS:
            self.counts, self.counted = decode_counts(value), place_of(record)
        elif key == POSITIONS:
            self.positions = decode_positions(value)

    def last(self, stream: str, unknown: int) -> int:
        """The last processed sequence, `unknown` for a stream that the view does not know."""
        found = self.streams.get(stream)
        return unknown if found is None else last_of(found)

    def skipped(self, stream: str) -> tuple[tuple[int, int], ...]:
        """The ranges of sequences that were given up, as far as they are remembered."""
        found = self.streams.get(stream)
        return found.skipped if isinstance(found, Progress) else ()

    def parked(self, stream: str) -> bool:
        """Whether the stream is set aside until somebody says so."""
        found = self.streams.get(stream)
        return found is not None and is_parked(found)
