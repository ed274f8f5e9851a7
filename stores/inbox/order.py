"""In which order a stream's messages are taken in; for those that count, the sequencer decides."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter
from typing import Literal, NamedTuple

from stores.message import Message
from topology.model.event import Event, Record
from topology.sequencer.contiguous import ContiguousOrdering
from topology.sequencer.progress import Progress, last_of
from topology.sequencer.sequencer import LOWEST, step
from topology.sequencer.timers import Timers

Order = Literal["contiguous", "monotonic"]
"""contiguous: sequences count from 1 without a gap; a message waits for those missing before it.
monotonic: (epoch, sequence) only grows, as in an output topic; what does not is a duplicate."""

FIRST: Mapping[Order, int] = {"contiguous": 1, "monotonic": LOWEST}
"""The lowest sequence."""

RING = 1024
"""Waiting messages of a stream that are looked up at a time."""

_CONTIGUOUS = ContiguousOrdering(size=RING, drain=2**62)

Stored = Callable[[str, int, int], Iterable[tuple[int, bytes]]]
"""(stream, first, last) → (sequence, content) of the messages that wait in the database."""


class StreamPosition(NamedTuple):
    """How far a stream is: `waiting` messages wait behind a gap since `since` (ms)."""

    epoch: int
    received: int
    waiting: int = 0
    since: int = 0


@dataclass(slots=True)
class OrderResult:
    """What became of messages. new: to be stored. changed: streams → how far they are now.

    ready: streams that have more to deliver.
    """

    new: list[Message] = field(default_factory=list)
    changed: dict[str, StreamPosition] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    duplicates: int = 0
    conflicts: int = 0


@dataclass(slots=True)
class _State:
    """What the sequencer reads of streams. came: those that wait since just now, by sequence."""

    at: dict[str, StreamPosition]
    stored: Stored
    came: dict[str, dict[int, Event]] = field(default_factory=dict)

    def progress(self, stream: str) -> int | Progress:
        at = self.at[stream]
        if not at.waiting:
            return at.received
        return Progress(at.received, spilled=at.waiting, since=at.since, loaded=at.received)

    def spilled(self, stream: str, first: int, last: int) -> Iterable[Event]:
        came = self.came.get(stream, {})
        rows = (
            Event(stream, sequence, None, None, Record("", 0, 0, None, content))
            for sequence, content in self.stored(stream, first, last)
        )
        own = [came[sequence] for sequence in sorted(came) if first <= sequence <= last]
        return merge(rows, own, key=attrgetter("sequence")) if own else rows


def take_contiguous(
    messages: Iterable[Message], at: Mapping[str, StreamPosition], stored: Stored, now: int
) -> OrderResult:
    """Take in messages of one topic; at: how far each of their streams is, from 0 on."""
    found, state = OrderResult(), _State(dict(at), stored)
    new: dict[int, Event] = {}
    events, unfinished = [_event(message, now) for message in messages], list[str]()
    while events or unfinished:
        # A step lets go of so many bytes at most, and nobody would go on with the rest later.
        result = step(_CONTIGUOUS, state, Timers(), events, resume=unfinished)
        # What waited in the database already came with the content alone.
        new |= {id(e): e for e in (*result.buffered, *result.ready) if e.content is not None}
        for stream, progress in result.changed.items():
            last, waiting, since = last_of(progress), 0, 0
            if isinstance(progress, Progress) and progress.waiting:
                waiting, since = progress.waiting, progress.since
            state.at[stream] = found.changed[stream] = StreamPosition(0, last, waiting, since)
        for event in result.buffered if result.unfinished else ():
            state.came.setdefault(event.stream, {})[event.sequence] = event
        found.ready.update(event.stream for event in result.ready)
        found.duplicates += result.duplicates
        found.conflicts += len(result.conflicts)
        events, unfinished = [], result.unfinished
    found.new = [event.content for event in new.values()]
    return found


def take_monotonic(messages: Iterable[Message], at: Mapping[str, StreamPosition]) -> OrderResult:
    """Take in messages of one topic that come in order, of which some come again."""
    found = OrderResult()
    for message in messages:
        last = found.changed.get(message.stream) or at[message.stream]
        if (message.epoch, message.sequence) <= (last.epoch, last.received):
            found.duplicates += 1
            continue
        found.changed[message.stream] = StreamPosition(message.epoch, message.sequence)
        found.ready.add(message.stream)
        found.new.append(message)
    return found


def _event(message: Message, now: int) -> Event:
    record = Record(message.topic, 0, 0, None, message.content)
    return Event(message.stream, message.sequence, message.kind, message, record, now)
