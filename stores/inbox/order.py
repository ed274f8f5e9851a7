"""In which order a stream's messages are taken in; for those that count, the sequencer decides."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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
    """What the sequencer reads of streams."""

    at: Mapping[str, StreamPosition]
    stored: Stored

    def progress(self, stream: str) -> int | Progress:
        at = self.at[stream]
        if not at.waiting:
            return at.received
        return Progress(at.received, spilled=at.waiting, since=at.since, loaded=at.received)

    def spilled(self, stream: str, first: int, last: int) -> Iterator[Event]:
        for sequence, content in self.stored(stream, first, last):
            yield Event(stream, sequence, None, None, Record("", 0, 0, None, content))


def take_contiguous(
    messages: Iterable[Message], at: Mapping[str, StreamPosition], stored: Stored, now: int
) -> OrderResult:
    """Take in messages of one topic; at: how far each of their streams is, from 0 on."""
    found = OrderResult()
    events = [_event(message, now) for message in messages]
    result = step(_CONTIGUOUS, _State(at, stored), Timers(), events)
    new = {id(event): event for event in (*result.buffered, *result.ready)}
    # What waited in the database already came with the content alone.
    found.new = [e.content for e in new.values() if e.content is not None]
    for stream, progress in result.changed.items():
        last = last_of(progress)
        if isinstance(progress, Progress) and progress.waiting:
            found.changed[stream] = StreamPosition(0, last, progress.waiting, progress.since)
        else:
            found.changed[stream] = StreamPosition(0, last)
    found.ready = {event.stream for event in result.ready}
    found.duplicates = result.duplicates
    found.conflicts = len(result.conflicts)
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
