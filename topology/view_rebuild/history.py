"""What is recorded of streams that are to be rebuilt: their events, and the rows they wrote."""

from collections.abc import Iterable

import orjson

from topology.declaration.lanes import split_lane
from topology.declaration.policies.late import RebuildStream, too_long
from topology.engine.view_task import ViewTask
from topology.model.errors import Malformed
from topology.model.event import Event, Message
from topology.model.origin_headers import original
from topology.sequencer.progress import FAILED_KEPT, SKIPPED_KEPT, Progress, last_of
from topology.view_rebuild.stream_rows import WrittenRows

ROOM = 50_000
"""Events that are held of all streams together, where a single one may not have more."""


class History:
    """One stream's.

    events: sequence → the first event that came with it, in order of arrival, up to where the
    stream is, at `last`, and from the input offset `anew` on, where it was dropped. written: what
    the view's output topic says of it. shortened: whether retention has taken the first messages of
    the input; unwritten: the same of the output topic.
    """

    def __init__(self, last: int, limit: int, anew: int = 0) -> None:
        self.events: dict[int, Event] = {}
        self.written = WrittenRows()
        self.shortened = False
        self.unwritten = False
        self.last = last
        self.anew = anew
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

    @property
    def refused(self) -> bool:
        """Whether it was not read to its end."""
        return bool(self._refused)

    def follows(self, progress: int | Progress) -> bool:
        """Whether it is the history of the stream as it is."""
        return self.last == last_of(progress) and self.anew == _anew(progress)

    def unfit(self, task: ViewTask, progress: Progress) -> str:
        """Why the stream cannot be rebuilt from it, empty if it can."""
        if self._refused:
            return self._refused
        if len(progress.failed) >= FAILED_KEPT:
            return f"{FAILED_KEPT} of its events failed: which were handled is not known any more"
        forgetful, counts = progress.forgot is not None, task.state.counts
        late = counts.late - sum(map(len, task.late_events.streams.values()))
        if forgetful and (late or counts.dead or counts.redriven or counts.redelivering):
            return (
                f"it gave up {SKIPPED_KEPT} ranges and more, and events of the view were dead, "
                "late or away: which of its own were handled is not known any more"
            )
        told = task.state.ordering.counts and not forgetful
        if not told and self.shortened:
            return "its history is no longer all there: retention has taken messages of the input"
        lacks = told and not self._whole(task, progress)
        if lacks and not self.anew:
            # Also where the topic was made anew, or is compacted, or its inspector has learned.
            return "its history is no longer all there: numbers that were handled are missing in it"
        if not self.anew:
            return ""
        again = task.view.full.beyond == "redeliver" or counts.redriven
        if lacks or (again and not told):
            return (
                "its stream was dropped, and may have taken events back that came before: they are "
                "no longer told from those that were forgotten"
            )
        return ""

    def _whole(self, task: ViewTask, progress: Progress) -> bool:
        """Whether every number up to where the stream is has come, or was given up."""
        known = [*progress.skipped, *((n, n) for n in self.events)]
        expected = task.state.ordering.start
        for first, last in sorted(known):
            if first > expected:
                return False
            expected = max(expected, last + task.state.ordering.step)
        return expected > progress.last


class Histories:
    """Several streams', read in one go: all records of the view's input and output partitions.

    streams: those that there was room for, one at least; the others need another go.
    """

    def __init__(self, task: ViewTask, streams: Iterable[str]) -> None:
        self._view = task.view
        late = task.view.late
        limit = late.limit if isinstance(late, RebuildStream) else RebuildStream().limit
        self.streams = {
            stream: History(last_of(progress), limit, _anew(progress))
            for stream, progress in ((each, task.state.progress(each)) for each in streams)
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
        self._take(record if source.keyed else original(record), record.timestamp, record.offset)

    def captured(self, message: Message) -> None:
        """A message of the source, as it was before it got into the input. Its offset there is not
        known: it is nothing to a stream that was dropped at one, and began anew."""
        self._take(message, message.timestamp, 0)

    def _take(self, message: Message, timestamp: int, offset: int) -> None:
        source = self._view.of
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
        event = Event(stream, sequence, kind, content, message, timestamp)
        if self._view.split is not None:
            (event,) = self._view.split([event])
        history = self.streams.get(event.stream)
        if history is not None and offset >= history.anew:
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


def _anew(progress: int | Progress) -> int:
    return progress.anew if isinstance(progress, Progress) else 0


def _lane_of(record: Message, stream: str) -> str:
    """The stream and lane that an output record says, the stream alone where it says none."""
    try:
        return str(orjson.loads(record.value or b"{}")["stream"])
    except (KeyError, TypeError, ValueError):
        return stream
