"""What is recorded of streams that are to be rebuilt: their events, and the rows they wrote."""

from collections.abc import Iterable

import orjson

from topology.errors import Malformed
from topology.event import Event, Message
from topology.lanes import split_lane
from topology.on_late import RebuildStream, too_long
from topology.origin import original
from topology.progress import SKIPPED_KEPT, Progress, last_of
from topology.sequencer import Ordering
from topology.view_task import ViewTask
from topology.written import Written

ROOM = 50_000
"""Events that are held of all streams together, where a single one may not have more."""


class History:
    """One stream's.

    events: sequence → the first event that came with it, in order of arrival, up to where the
    stream is, at `last`. written: what the view's output topic says of it. shortened: whether
    retention has taken the first messages of the input; unwritten: the same of the output topic.
    """

    def __init__(self, last: int, limit: int) -> None:
        self.events: dict[int, Event] = {}
        self.written = Written()
        self.shortened = False
        self.unwritten = False
        self.last = last
        self._limit = limit
        self._refused = ""

    def event(self, event: Event) -> int:
        """An event came. Returns how many more are held for it, or fewer where that is below 0."""
        if event.sequence > self.last or self._refused or event.sequence in self.events:
            return 0
        if len(self.events) >= self._limit:
            held, self.events = len(self.events), {}
            self._refused = too_long(self._limit)
            return -held
        self.events[event.sequence] = event
        return 1

    def output(self, value: bytes | None) -> None:
        """A record of the view's output topic that is keyed by the stream."""
        if self._refused:
            return
        try:
            self.written.record(orjson.loads(value or b"{}"))
        except (AttributeError, KeyError, TypeError, ValueError):
            self._refused = "the view's output topic has a record of it that is no row change"
        if len(self.written.rows) > self._limit:
            self._refused = f"it wrote more than {self._limit} rows"
            self.written.rows = {}

    def unfit(self, ordering: Ordering, progress: int | Progress) -> str:
        """Why the stream cannot be rebuilt from it, empty if it can."""
        if self._refused or not self.shortened:
            return self._refused
        gone = "its history is no longer all there: retention has taken messages of the input"
        skipped = progress.skipped if isinstance(progress, Progress) else ()
        if ordering.kind != "contiguous" or len(skipped) >= SKIPPED_KEPT:
            return gone
        # Every number up to where the stream is has come, or was given up.
        known = [(first, last) for first, last in skipped] + [(n, n) for n in self.events]
        expected = ordering.start
        for first, last in sorted(known):
            if first > expected:
                return gone
            expected = max(expected, last + ordering.step)
        return gone if expected <= last_of(progress) else ""


class Histories:
    """Several streams', read in one go: all records of the view's input and output partitions.

    streams: those that there was room for, one at least; the others need another go.
    """

    def __init__(self, task: ViewTask, streams: Iterable[str]) -> None:
        self._view = task.view
        late = task.view.late
        limit = late.limit if isinstance(late, RebuildStream) else RebuildStream().limit
        self.streams = {
            stream: History(last_of(task.progress(stream)), limit) for stream in streams
        }
        self._room = max(limit, ROOM)
        own = self.streams if task.view.split is None else {split_lane(s)[0] for s in self.streams}
        self._keys = {stream.encode() for stream in own}

    def shortened(self, *, input: bool, output: bool) -> None:
        """Whether the partitions begin behind offset 0."""
        for history in self.streams.values():
            history.shortened, history.unwritten = input, output

    def message(self, record: Message) -> None:
        """A record of the input."""
        source = self._view.of
        if not source.keyed and record.key not in self._keys:
            return
        message = record if source.keyed else original(record)
        try:
            found = source.inspect(message)
        except Malformed:
            return
        if found is None:
            return
        stream, sequence, kind, content = found
        above = sequence - source.sequence.start
        if above < 0 or above % source.sequence.step:
            return
        event = Event(stream, sequence, kind, content, message, record.timestamp)
        if self._view.split is not None:
            (event,) = self._view.split([event])
        history = self.streams.get(event.stream)
        if history is not None:
            self._room -= history.event(event)
            if self._room < 0 and len(self.streams) > 1:
                self._room += len(self.streams.pop(event.stream).events)

    def output(self, record: Message) -> None:
        """A record of the output topic."""
        if record.key not in self._keys:
            return
        stream = record.key.decode()
        if self._view.split is not None:
            stream = _lane_of(record, stream)
        history = self.streams.get(stream)
        if history is not None:
            history.output(record.value)


def _lane_of(record: Message, stream: str) -> str:
    """The stream and lane that an output record says, the stream alone where it says none."""
    try:
        return str(orjson.loads(record.value or b"{}")["stream"])
    except (KeyError, TypeError, ValueError):
        return stream
