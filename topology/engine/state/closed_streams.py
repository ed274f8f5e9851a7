"""Closed streams of a view in one partition: what is left of them goes when its time has come."""

import math
import struct
from collections.abc import Callable, Iterable
from itertools import islice

from topology.engine.state.rows import encode_progress, progress_key
from topology.model.partition_table import PartitionTable, Row
from topology.sequencer.progress import Progress

CLOSED = (b"d", b"e")
"""The key range of closed streams, by when their rows are dropped."""
DROPS = 1000
"""Streams dropped in one step, at most; the rest goes in the steps that follow."""

_DUE = struct.Struct(">Q")


def closed_key(due: int, stream: str) -> bytes:
    """Return the key of the row that a stream is closed by."""
    return b"d" + _DUE.pack(due) + stream.encode()


class ClosedStreams:
    """An index by time, in rows: however many streams are closed, memory has the next time only."""

    def __init__(self, table: PartitionTable) -> None:
        self.table = table
        self.due: float = math.inf
        """When the next stream is dropped (ms), infinite if none is closed."""
        for key, _ in islice(table.scan(*CLOSED), 1):
            self.due = _due_of(key)

    def note(self, changed: Iterable[tuple[str, int | Progress]]) -> list[Row]:
        """The rows that remember the streams that this step closed."""
        rows: list[Row] = []
        for stream, progress in changed:
            if isinstance(progress, Progress) and progress.closed is not None:
                self.due = min(self.due, progress.closed)
                rows.append((closed_key(progress.closed, stream), b""))
        return rows

    def drop(
        self, now: int, progress_of: Callable[[str], int | Progress], first: int
    ) -> tuple[set[str], list[Row]]:
        """(streams that are over by `now`, the rows to delete, in this order).

        A stream that was opened again, or that events wait in, stays. One that was rebuilt keeps
        its epoch, by which read stores tell what is newer. first: where a stream is that is new.
        """
        if self.due > now:
            return set(), []
        streams: set[str] = set()
        rows: list[Row] = []
        self.due = math.inf
        for key, _ in self.table.scan(*CLOSED):
            due, stream = _due_of(key), key[9:].decode()
            if due > now or len(rows) >= 2 * DROPS:
                self.due = due
                break
            progress = progress_of(stream)
            if isinstance(progress, Progress) and progress.closed == due and not progress.waiting:
                streams.add(stream)
                left = Progress(first, epoch=progress.epoch)
                row = encode_progress(left, None) if left.epoch else None
                rows.append((progress_key(stream), row))
            rows.append((key, None))
        return streams, rows


def _due_of(key: bytes) -> int:
    found: int = _DUE.unpack(key[1:9])[0]
    return found
