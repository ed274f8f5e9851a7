"""Events that wait in memory only, as the view's input still has them: short waits write no rows.

Each commit unit notes which events began to wait: where they are in the input, and as which event
of which stream. With that `engine/wait_notes.py` reads them again; what is at or below its stream's
`last` was processed since. So no note has to be taken back, in views in which an event leaves its
buffer only as `last` passes it; see `may_wait_in_memory`. What waits longer gets its row.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from topology.declaration.view import View
from topology.engine.state.rows import buffer_key, encode_message, encode_note, mark_of, note_key
from topology.model.event import Event, Message, Record
from topology.model.partition_table import Row

SAMPLE = 64
"""Of so many events that come one is measured."""
NOTE_BYTES = 100_000
"""About how large the row of a note may be."""

_NO_RECORD = Record("", 0, 0, None, None)

Waits = dict[Event, bool]
"""The very events, in order; what is said of each has no meaning."""


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """How far the input is to be read again at most: twice this, as generations take turns.

    Attributes:
        records: that came.
        bytes: of their bodies, by a sample.
        time: since the first of them came (ms).
        age: of a message by its own time (ms), so that the input keeps it for as long again; None
            where it keeps all.
    """

    records: int = 100_000
    bytes: int = 32 << 20
    time: int = 30_000
    age: int | None = None


class ShortWaits:
    """The events of a view that have no row yet, in two generations.

    limits: when a generation ends; what then still waits of the one before gets rows.
    """

    __slots__ = (
        "_at", "_bytes", "_ending", "_events", "_fresh", "_fresh_records", "_inputs", "_limits",
        "_notes", "_now", "_previous", "_previous_notes", "_recent", "_records", "_turned",
        "end_now",
    )  # fmt: skip

    def __init__(self, limits: WaitLimits) -> None:
        self._limits = limits
        self._recent: Waits = {}
        self._previous: Waits = {}
        self._fresh: list[Event] = []
        self._fresh_records: list[Message] = []
        self._ending: Waits = {}
        self._notes: list[bytes] = []
        self._previous_notes: list[bytes] = []
        self._records = self._bytes = self._turned = self._now = 0
        self._at = -1
        self._events: Sequence[Event] = ()
        self._inputs: Sequence[Message] | dict[int, Message] | None = None
        self.end_now = False
        """Whether the next unit is to write all that waits."""

    def __len__(self) -> int:
        return len(self._recent) + len(self._previous)

    def __contains__(self, event: Event) -> bool:
        return event in self._recent or event in self._previous

    @property
    def noted(self) -> bool:
        """Whether there is something to write or to delete."""
        return bool(self._fresh or self._notes or self._previous_notes)

    @property
    def due(self) -> float:
        """When a generation ends without more records (ms), infinite where nothing waits."""
        return self._turned + self._limits.time if len(self) else float("inf")

    def begin(self, events: Sequence[Event], records: Sequence[Message] | None, now: int) -> None:
        """A batch is in hand. records: of its events in the input, None if these are its messages.
        now: the wall clock (ms)."""
        self._events, self._inputs, self._now = events, records, now
        self._records += len(events)
        if sample := events[::SAMPLE]:
            size = sum(len(event.message.value or b"") for event in sample)
            self._bytes += size * len(events) // len(sample)
            first, last = (
                (events[0].message, events[-1].message)
                if records is None
                else (records[0], records[-1])
            )
            # What was read so far is no longer there: the topic was made anew.
            self.end_now |= first.offset <= self._at
            self._at = last.offset

    def let_go(self) -> None:
        """The batch in hand is done with: until the next one comes, its events take no memory."""
        self._events, self._inputs = (), None

    def add(self, events: Collection[Event]) -> list[Event]:
        """Let events of the batch in hand wait without rows; returns those that are to have one."""
        inputs, age = self._records_of_events(), self._limits.age
        oldest = -1 if age is None else self._now - age
        records = [
            event.message if inputs is None else inputs.get(id(event), _NO_RECORD)
            for event in events
        ]
        rows = [
            event
            for event, record in zip(events, records, strict=True)
            if record.timestamp < oldest or record is _NO_RECORD
        ]
        if rows:
            have = set(rows)
            events = [event for event in events if event not in have]
            records = [event.message if inputs is None else inputs[id(event)] for event in events]
        if events and not (self or self._notes or self._previous_notes):
            self._turned, self._records, self._bytes = self._now, 0, 0
        self._recent |= dict.fromkeys(events, True)
        self._fresh += events
        self._fresh_records += records
        return rows

    def _records_of_events(self) -> dict[int, Message] | None:
        """By the identities of the events of the batch in hand, the input's records of them; None
        if these are their messages."""
        inputs = self._inputs
        if not self._events:
            return {}
        if inputs is not None and not isinstance(inputs, dict):
            inputs = self._inputs = dict(zip(map(id, self._events), inputs, strict=True))
        return inputs

    def release(self, events: Iterable[Event]) -> list[Event]:
        """Events wait no longer. Returns those that have rows."""
        recent, previous = self._recent.pop, self._previous.pop
        return [event for event in events if not (recent(event, False) or previous(event, False))]

    def end(self, events: Iterable[Event]) -> bool:
        """The next unit is to write those of some events that have no row. Returns whether there
        are any."""
        found = dict.fromkeys((event for event in events if event in self), True)
        self._ending |= found
        return bool(found)

    def _taken(self, ending: Waits) -> list[Event]:
        """Those that still wait, which have rows from now on."""
        gone = set(self.release(ending))
        return [event for event in ending if event not in gone]

    def rows(self, *, everything: bool) -> list[Row]:
        """The rows of what has waited for long, or of all that waits; and of what is noted."""
        limits, now = self._limits, self._now
        if everything or self.end_now:
            found = rows_of([*self._previous, *self._recent])
            found += _gone(self._previous_notes + self._notes)
            self._previous, self._recent, self.end_now = {}, {}, False
            self._ending = {}
            self._previous_notes, self._notes = [], []
            self._fresh, self._fresh_records = [], []
            return found
        found = list(_notes(self._fresh, self._fresh_records))
        self._notes += [key for key, _ in found]
        self._fresh, self._fresh_records = [], []
        ending, self._ending = self._ending, {}
        found += rows_of(self._taken(ending))
        if (
            self._records >= limits.records
            or self._bytes >= limits.bytes
            # A clock that was set back must not let anything wait for longer.
            or not self._turned <= now < self._turned + limits.time
        ):
            # Rows come before the notes that they replace.
            found += [*rows_of(self._previous), *_gone(self._previous_notes)]
            self._previous, self._recent = self._recent, {}
            self._previous_notes, self._notes = self._notes, []
            self._turned, self._records, self._bytes = now, 0, 0
        return found


def rows_of(events: Iterable[Event]) -> list[Row]:
    """The rows of waiting events."""
    return [
        (buffer_key(event.stream, event.sequence), encode_message(event.message, event.arrived))
        for event in events
    ]


def _gone(notes: Iterable[bytes]) -> list[Row]:
    return [(key, None) for key in notes]


def _notes(events: Sequence[Event], records: Sequence[Message]) -> Iterator[Row]:
    """The notes of events that began to wait, each row below about NOTE_BYTES.

    records: of the input, of these events.
    """
    if not events:
        return
    size = 70 + 4 * max(len(event.stream) for event in events)
    most = max(1, NOTE_BYTES // size)
    for at in range(0, len(events), most):
        part = [
            (record.offset, record.timestamp, mark_of(record), event.stream, event.sequence)
            for record, event in zip(records[at : at + most], events[at : at + most], strict=True)
        ]
        yield note_key(part[0][0]), encode_note(events[at].arrived, part)


def may_wait_in_memory(view: View) -> bool:
    """Whether an event leaves a view's buffers only as its stream's `last` passes it."""
    order = view.ordering
    moves = order.full == "redeliver" or order.opens or order.closes or view.late.rebuilds
    return order.counts and not (moves or view.split is not None or view.work is not None)
