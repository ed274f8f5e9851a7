"""What arrived in one partition, in a few bytes a message, to be gone through many times."""

from array import array
from collections.abc import Collection, Iterator, Sequence

from topology.model.event import Event, Record, event_of

_NONE = Record("", 0, 0, None, None)


class NormalisedArrivals:
    """Of each event its stream, sequence, time and, as far as it matters, its kind: 22 bytes.

    Each stream's id is there once. kinds: those that matter. columns: how many ways there are to
    say which stream an event is of; a view with lanes has one of its own, for 4 bytes more.
    """

    def __init__(self, kinds: Collection[str | None] = (), columns: int = 1) -> None:
        self._kinds: list[str | None] = [None, *(kind for kind in kinds if kind is not None)]
        self._kind_numbers = {kind: number for number, kind in enumerate(self._kinds)}
        self._streams: list[str] = []
        self._numbers: dict[str, int] = {}
        self._columns = [array("I") for _ in range(columns)]
        self._sequences, self._times, self._of_kind = array("q"), array("q"), array("H")

    def __len__(self) -> int:
        return len(self._sequences)

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and the last time (ms), None if nothing arrived."""
        return (self._times[0], self._times[-1]) if self._times else None

    def add(self, streams: Sequence[str], sequence: int, kind: str | None, at: int) -> None:
        """Take an event. streams: its stream as each of the columns has it. at: ms."""
        for column, stream in zip(self._columns, streams, strict=True):
            number = self._numbers.setdefault(stream, len(self._streams))
            if number == len(self._streams):
                self._streams.append(stream)
            column.append(number)
        self._sequences.append(sequence)
        self._times.append(at)
        self._of_kind.append(self._kind_numbers.get(kind, 0))

    def events(self, column: int = 0, begin: int | None = None) -> Iterator[Event]:
        """The events, in order of arrival.

        begin: have each stream begin with this sequence, whatever is the lowest that is recorded of
        it. What was missing before that is taken for processed: it says nothing of how late events
        come.
        """
        streams, kinds, of = self._streams, self._kinds, self._columns[column]
        lowest: dict[int, int] = {}
        if begin is not None:
            for number, sequence in zip(of, self._sequences, strict=True):
                if sequence < lowest.get(number, sequence + 1):
                    lowest[number] = sequence
        rows = zip(of, self._sequences, self._of_kind, self._times, strict=True)
        for number, sequence, kind, at in rows:
            if begin is not None:
                sequence += begin - lowest[number]
            yield event_of(streams[number], sequence, kinds[kind], None, _NONE, at)
