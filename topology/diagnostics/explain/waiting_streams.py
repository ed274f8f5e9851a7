"""The streams of a view that wait, as a changelog says: kept up as it grows, without the events.

What waits is known by keys and notes alone, so a look costs what changed since the last one.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from topology.declaration.view import View
from topology.diagnostics.explain.fold import of_counts, of_waiting
from topology.diagnostics.explain.gaps import NOBODY, OpenGap, open_gap
from topology.diagnostics.explain.parked_streams import ParkedStream
from topology.engine.state.rows import NOTES, decode_note, decode_progress, split_buffer_key
from topology.engine.state.view_state import is_parked
from topology.sequencer.ordering import Ordering
from topology.sequencer.progress import Progress


def of_sequences(key: bytes, value: bytes) -> bool:
    """Which sequences wait, and what there is of the view; see `WaitingStreams`."""
    return of_waiting(key, value)


def knows_by_sequences(ordering: Ordering) -> bool:
    """Whether an order tells what is missing by the sequences that wait, without the events."""
    return ordering.counts or ordering.settles


class WaitingStreams:
    """Which sequences of which streams wait in a partition of a view.

    Attributes:
        rows: what there is of the view as a whole: those that `of_counts` wants.
        notes: rows of notes of events that wait in memory only.
    """

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.notes: dict[bytes, bytes] = {}
        self._progress: dict[str, bytes] = {}
        self._sequences: defaultdict[str, set[int]] = defaultdict(set)
        self._notes: dict[bytes, list[tuple[str, int]]] = {}
        self._noted: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._changed: set[str] = set()
        self._gaps: dict[str, OpenGap] = {}
        self._parked: dict[str, ParkedStream] = {}
        self._ordering: Ordering | None = None

    def take(self, key: bytes, value: bytes | None) -> None:
        """The next record of the changelog."""
        kind = key[:1]
        if kind == b"p":
            stream = key[1:].decode()
            if value is not None and of_waiting(key, value):
                self._progress[stream] = value
            elif self._progress.pop(stream, None) is None:
                return
            self._changed.add(stream)
        elif kind == b"b":
            if of_waiting(key, b""):
                self._hold(*split_buffer_key(key), held=value is not None)
        elif kind == NOTES[0]:
            self.notes.pop(key, None)
            for stream, sequence in self._notes.pop(key, ()):
                self._note(stream, sequence, -1)
            if value is not None:
                self.notes[key] = value
                self._notes[key] = [(each.stream, each.sequence) for each in decode_note(value)]
                for stream, sequence in self._notes[key]:
                    self._note(stream, sequence, 1)
        elif value is None:
            self.rows.pop(key, None)
        elif of_counts(key, value):
            self.rows[key] = value

    def _hold(self, stream: str, sequence: int, *, held: bool) -> None:
        sequences = self._sequences[stream]
        if held:
            sequences.add(sequence)
        else:
            sequences.discard(sequence)
        if not sequences:
            del self._sequences[stream]
        self._changed.add(stream)

    def _note(self, stream: str, sequence: int, add: int) -> None:
        noted = self._noted[stream]
        noted[sequence] += add
        if not noted[sequence]:
            del noted[sequence]
        if not noted:
            del self._noted[stream]
        self._changed.add(stream)

    def gaps(
        self, view: View, partition: int, ordering: Ordering,
        away: Mapping[str, Collection[int]] = NOBODY, dead: Mapping[str, Collection[int]] = NOBODY,
    ) -> Iterator[OpenGap]:  # fmt: skip
        """The gaps, as `open_gaps` finds them.

        Args:
            view: whose partition it is.
            partition: its number.
            ordering: of the view, with the time-out that it has by now.
            away: stream → sequences in redelivery.
            dead: stream → sequences in the dead topic.
        """
        self._look(view, partition, ordering)
        odd = {stream for stream in (*away, *dead) if stream in self._progress}
        for stream, gap in self._gaps.items():
            if stream not in odd:
                yield gap
        for stream in odd:
            if (found := self._waiting(stream)) is not None:
                gone, died = away.get(stream, ()), dead.get(stream, ())
                odd_one = open_gap(view.name, partition, stream, *found, ordering, gone, died)
                if odd_one is not None:
                    yield odd_one

    def parked(self, view: View, partition: int, ordering: Ordering) -> Iterator[ParkedStream]:
        """The parked streams, as `parked_of` finds them. The arguments are those of `gaps`."""
        self._look(view, partition, ordering)
        return iter(self._parked.values())

    def _look(self, view: View, partition: int, ordering: Ordering) -> None:
        """Take in what changed since the last look."""
        anew = ordering != self._ordering
        # Also those that wait no longer.
        for stream in dict.fromkeys([*self._progress, *self._changed]) if anew else self._changed:
            self._gaps.pop(stream, None)
            self._parked.pop(stream, None)
            if (found := self._waiting(stream)) is None:
                continue
            if gap := open_gap(view.name, partition, stream, *found, ordering):
                self._gaps[stream] = gap
            progress, sequences = found
            if is_parked(progress):
                self._parked[stream] = ParkedStream(
                    view.name, partition, stream, progress.since, sequences[0], len(sequences), None
                )
        self._changed, self._ordering = set(), ordering

    def _waiting(self, stream: str) -> tuple[Progress, list[int]] | None:
        """(the progress, the sequences that wait, sorted) of a stream; None if nothing waits."""
        row = self._progress.get(stream)
        if row is None:
            return None
        found, _ = decode_progress(row)
        progress = found if isinstance(found, Progress) else Progress(found)
        there = {*self._sequences.get(stream, ()), *self._noted.get(stream, ())}
        waiting = sorted(sequence for sequence in there if sequence > progress.last)
        return (progress, waiting) if waiting else None
