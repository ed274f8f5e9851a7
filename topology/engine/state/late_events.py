"""Late events whose streams are to be rebuilt: they are kept as rows until that is done."""

from collections.abc import Collection, Iterator

from topology.declaration.policies import RebuildStream
from topology.engine.state.rows import LATE, encode_message, late_key, split_buffer_key
from topology.model.event import Event
from topology.model.partition_table import PartitionTable, Row
from topology.sequencer.progress import writable
from topology.sequencer.sequencer import LAST, Step

_LOWEST = -(2**63)


class LateEvents:
    """streams: stream → the sequences of its late events; their messages are rows only."""

    def __init__(self, table: PartitionTable) -> None:
        self._table = table
        self.streams: dict[str, set[int]] = {}
        for key, _ in table.scan(*LATE):
            stream, sequence = split_buffer_key(key)
            self.streams.setdefault(stream, set()).add(sequence)

    def take(self, result: Step, policy: RebuildStream, step: int) -> tuple[list[Event], list[Row]]:
        """Set the streams of a step's late events aside until they are rebuilt.

        step: of sequences. Returns the events that the policy rebuilds no stream for, which are
        merely late, and the new rows.
        """
        late: list[Event] = []
        beyond: list[Event] = []
        rows: list[Row] = []
        changed = result.changed
        for event in result.late:
            stream, sequence = event.stream, event.sequence
            pending = self.streams.get(stream, ())
            if sequence in pending:
                result.duplicates += 1
                continue
            late.append(event)
            # Of a closed stream, which is not rebuilt, nothing changes.
            full = len(pending) >= policy.limit or stream not in changed
            if full or not policy.wants(event):
                beyond.append(event)
                if stream in changed:
                    writable(changed, stream).restore_skipped([sequence], step)
                continue
            self.streams.setdefault(stream, set()).add(sequence)
            row = encode_message(event.message, event.arrived)
            rows.append((late_key(stream, sequence), row))
        for stream in {event.stream for event in late} & changed.keys():
            writable(changed, stream).rebuild = tuple(sorted(self.streams.get(stream, ())))
        result.late = late
        return beyond, rows

    def rows(self, stream: str) -> Iterator[tuple[int, bytes]]:
        """(sequence, message row) of a stream's late events, in sequence."""
        low = late_key(stream, _LOWEST)
        for key, row in self._table.scan(low, late_key(stream, LAST) + b"\0"):
            if len(key) == len(low):
                yield split_buffer_key(key)[1], row

    def forget(self, stream: str, but: Collection[int] = ()) -> list[Row]:
        """The rows to delete when the stream is rebuilt, or will not be. but: those to keep."""
        gone = self.streams.pop(stream, set()).difference(but)
        if but:
            self.streams[stream] = set(but)
        return [(late_key(stream, sequence), None) for sequence in sorted(gone)]
