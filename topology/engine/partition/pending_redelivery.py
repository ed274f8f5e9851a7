"""What is away for redelivery in a view's partition: which of it comes again now, and when."""

import heapq
import math
from collections.abc import Iterable, Iterator

from topology.engine.redelivery.records import not_before, sequence_of, stream_of
from topology.engine.view_task import ViewTask
from topology.model.event import Message
from topology.sequencer.progress import Progress, last_of

SPAN = 16_384
"""Offsets of the redelivery topic that are looked at side by side, from the first one that is away:
what is behind them waits until that one has come again."""
BYTES = 16 << 20
"""Of the records that are held of them, at most; one is in any case."""
RECORD = 1000
"""Bytes that a record takes beside its value."""
MOST = 4_000
"""Events that come again in one step, at most."""


class RedeliveryQueue:
    """The records of the redelivery topic that were read and did not come again yet.

    An event comes again when the ring has room for it, and when its time has come. One that has to
    wait longer holds up none behind it, as long as both are held here. A time that is further off
    than the view sends events away for has come: the clock that said so was wrong, or this one is.
    """

    def __init__(self, task: ViewTask) -> None:
        self._task = task
        self._records: dict[int, Message] = {}
        self._end = task.state.positions.redelivered
        self._bytes = 0
        self._clock = -math.inf
        self._times: list[tuple[int, int]] = []
        self._streams: dict[str, list[tuple[int, int]]] = {}
        self._new: set[str] = set()
        self._fitting: set[str] = set()

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Message]:
        """The records that are away, in their order."""
        return iter(self._records.values())

    @property
    def first(self) -> int:
        """The offset of the first record that is away; if none is, that of the next to read."""
        return next(iter(self._records), self._end)

    @property
    def end(self) -> int:
        """The offset behind what was read."""
        return self._end

    @property
    def room(self) -> bool:
        """Whether more is to be read."""
        return self._bytes < BYTES and self._end - self.first < SPAN

    def read(self, records: Iterable[Message], now: int) -> None:
        """Hold the next records of the topic; those that came again already are passed over."""
        took = self._task.state.positions.took
        for record in records:
            self._end = record.offset + 1
            if not took(record.offset):
                self._records[record.offset] = record
                self._bytes += _size(record)
                self._note(record, now)

    def next(self, now: int) -> float:
        """When the next event comes again (ms), infinite if none is away."""
        if self._task.halted:
            return math.inf
        self._look(now)
        if self._fitting:
            return now
        return self._times[0][0] if self._times else math.inf

    def take(self, now: int) -> list[Message]:
        """The records of the events that come again now (ms): for the step that follows."""
        self._look(now)
        found = list(self._that_fit())
        times = self._times
        self._clean(times)
        while times and times[0][0] <= now and len(found) < MOST:
            found.append(self._pop(heapq.heappop(times)[1]))
            self._clean(times)
        if found:
            positions = self._task.state.positions
            for record in found:
                positions.take(record.offset)
            positions.move(self.first)
        if len(times) > 2 * len(self._records) + 64:
            self._index(now)
        return found

    def _note(self, record: Message, now: int) -> None:
        due = not_before(record)
        plausible = due <= now + self._task.view.longest_away
        heapq.heappush(self._times, (due if plausible else now, record.offset))
        stream = stream_of(record)
        heap = self._streams.setdefault(stream, [])
        heapq.heappush(heap, (sequence_of(record), record.offset))
        self._new.add(stream)

    def _index(self, now: int) -> None:
        """Build the indices anew: the clock went back, or most of them is of what is gone."""
        self._times, self._streams = [], {}
        self._new.clear()
        self._fitting.clear()
        for record in self._records.values():
            self._note(record, now)

    def _look(self, now: int) -> None:
        """Find out whose events fit now."""
        if now < self._clock:
            self._index(now)
        self._clock = now
        moved = self._task.moved
        for stream in self._new | (moved & self._streams.keys()):
            heap = self._streams[stream]
            self._clean(heap)
            if not heap:
                del self._streams[stream]
                self._fitting.discard(stream)
            elif _Room(self._task, stream).takes(heap[0][0]):
                self._fitting.add(stream)
            else:
                self._fitting.discard(stream)
        self._new.clear()
        moved.clear()
        self._clean(self._times)

    def _that_fit(self) -> Iterator[Message]:
        """The records of events that there is room for, a stream's in sequence."""
        left = MOST
        for stream in sorted(self._fitting):
            heap, room = self._streams[stream], _Room(self._task, stream)
            while left and heap and room.takes(heap[0][0]):
                left -= 1
                yield self._pop(heapq.heappop(heap)[1])
                self._clean(heap)
            self._new.add(stream)
            if not left:
                return

    def _pop(self, offset: int) -> Message:
        record = self._records.pop(offset)
        self._bytes -= _size(record)
        return record

    def _clean(self, heap: list[tuple[int, int]]) -> None:
        """Drop what came again by another index from the top of this one."""
        while heap and heap[0][1] not in self._records:
            heapq.heappop(heap)


class _Room:
    """What a stream has room for, the events being offered in sequence."""

    def __init__(self, task: ViewTask, stream: str) -> None:
        progress, ordering = task.state.progress(stream), task.state.ordering
        self._ordering = ordering
        self._ring = progress.ring if isinstance(progress, Progress) else None
        self._next = last_of(progress) + ordering.step
        waiting = progress.waiting if isinstance(progress, Progress) else 0
        self._free = max(0, ordering.size - waiting)
        suspended = isinstance(progress, Progress) and progress.suspended
        starts = ordering.open_after is not None or bool(ordering.opens)
        # Then nobody can say how far the ring will reach.
        self._shut = suspended or (starts and ordering.is_new(progress))

    def takes(self, sequence: int) -> bool:
        """Whether there is a place for an event, which has it from then on."""
        if self._shut:
            return False
        ordering, add = self._ordering, self._ordering.step
        if not ordering.counts:
            self._free -= 1
            return self._free >= 0
        ring = self._ring
        while ring and (event := ring.get(self._next)) and event.sequence == self._next:
            self._next += add
        if sequence >= self._next + ordering.size * add:
            return False
        if sequence == self._next:
            self._next += add
        return True


def _size(record: Message) -> int:
    return RECORD + len(record.value or b"")
