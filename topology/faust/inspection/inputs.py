"""What of a stream lies in a view's input and in its source's topics, read or not."""

from contextlib import suppress
from dataclasses import dataclass, field

from aiokafka import TopicPartition

from topology.declaration.source import Source
from topology.declaration.view import View
from topology.diagnostics.explain import Arrival
from topology.diagnostics.explain.formatting import lately
from topology.faust.inspection.durable import DurableState, Span
from topology.faust.kafka.offsets import Committed
from topology.faust.kafka.open_transactions import held_text
from topology.model.errors import Malformed
from topology.model.event import Event, Message
from topology.model.origin_headers import original

NEWEST = 20_000
"""Offsets at the end of the input in which the stream's last message is looked for."""


@dataclass(frozen=True, slots=True)
class Input:
    """One partition of a view's input, looked at for one stream.

    seen: the offsets of the stream's messages from `floor` on, of those `looked` at. newest: the
    last one. unseen: what was not looked at, in words.
    """

    partition: TopicPartition
    span: Span
    committed: Committed | None
    floor: int
    looked: int
    seen: list[int]
    newest: Arrival | None
    unseen: list[str]

    def position(self, own: int | None) -> int:
        """The offset that a view reads next. own: its own, where it reads apart."""
        if own is not None:
            return own
        return self.committed.offset if self.committed else self.span.first


@dataclass(frozen=True, slots=True)
class Unkeyed:
    """What of a source's topics is not re-keyed yet. offsets: how many, mine: messages of the
    stream among them, newest: the last of these.
    """

    offsets: int = 0
    mine: int = 0
    newest: Arrival | None = None
    unseen: list[str] = field(default_factory=list)


class Inputs:
    """Looks at inputs for one stream, at what is common to several views only once."""

    def __init__(self, durable: DurableState, stream: str) -> None:
        self._durable = durable
        self._stream = stream
        self._inputs: dict[tuple[TopicPartition, str], Input] = {}
        self._unkeyed: dict[tuple[str, str], Unkeyed] = {}

    async def input(self, view: View, number: int, own: int | None, stream: str) -> Input:
        """own: the view's position, where it has one of its own. stream: in a view with lanes, the
        lane."""
        durable, source = self._durable, view.of
        partition = TopicPartition(source.by_stream, number)
        place = partition, _whose(view, stream)
        found = self._inputs.get(place)
        committed = (await durable.committed([partition])).get(partition)
        span = (await durable.span([partition]))[partition]
        position = own if own is not None else committed.offset if committed else span.first
        floor = max(span.first, min(position, span.end - NEWEST))
        if found is not None and found.floor <= floor:
            return found
        tail = await durable.end_of(
            partition, lambda record: self._mine(view, record, stream) is not None, least=floor
        )
        newest = None
        if tail.records:
            last = tail.records[-1]
            newest = self._arrival(source, last, self._mine(view, last, stream))
        unseen = [tail.cut] if tail.cut and span.end - tail.looked > position else []
        unseen += _held(partition, span)
        seen = [record.offset for record in tail.records]
        made = Input(partition, span, committed, floor, tail.looked, seen, newest, unseen)
        self._inputs[place] = made
        return made

    async def unkeyed(self, view: View, stream: str) -> Unkeyed:
        """Of a source whose messages are re-keyed."""
        durable, source = self._durable, view.of
        if source.keyed:
            return Unkeyed()
        place = source.name, _whose(view, stream)
        if place not in self._unkeyed:
            inputs = await durable.inputs(source)
            done, spans = await durable.committed(inputs), await durable.span(inputs)
            offsets, unseen = 0, []
            mine: list[Message] = []
            for tp, span in spans.items():
                start = max(span.first, done[tp].offset if tp in done else span.first)
                if start < span.written:
                    offsets += span.written - start
                    tail = await durable.end_of(
                        tp, lambda one: self._raw(view, one, stream) is not None, least=start
                    )
                    mine += tail.records
                    unseen += [lately(tail.looked, f"{tp.topic}/{tp.partition}")] * bool(tail.cut)
                    unseen += _held(tp, span)
            last = max(mine, key=lambda record: record.timestamp, default=None)
            newest = None
            if last is not None:
                newest = _arrival(last, self._raw(view, last, stream), last.timestamp)
            self._unkeyed[place] = Unkeyed(offsets, len(mine), newest, unseen)
        return self._unkeyed[place]

    def _mine(self, view: View, record: Message, stream: str) -> int | None:
        """The sequence of a record of the view's input that is of the stream, else None."""
        if view.of.keyed:
            return self._raw(view, record, stream)
        if record.key != self._stream.encode():
            return None
        return self._raw(view, original(record), stream)

    def _raw(self, view: View, message: Message, stream: str) -> int | None:
        """The same of a message as its source had it."""
        with suppress(Malformed):
            if (found := view.of.inspect(message)) is not None and found[0] == self._stream:
                event, split = Event(*found, message), view.split
                # Of a stream that the view does not know, whatever lane it has is its.
                if split is None or stream in (self._stream, split([event])[0].stream):
                    return event.sequence
        return None

    def _arrival(self, source: Source, record: Message, sequence: int | None) -> Arrival:
        return _arrival(record if source.keyed else original(record), sequence, record.timestamp)


def _whose(view: View, stream: str) -> str:
    """Views without lanes all see the same."""
    return "" if view.split is None else f"{view.name}/{stream}"


def _arrival(message: Message, sequence: int | None, arrived: int) -> Arrival:
    return Arrival(sequence, message.topic, message.partition, message.offset, arrived)


def _held(partition: TopicPartition, span: Span) -> list[str]:
    """What is said of what an open transaction hides."""
    return [held_text(partition, span.end)] * bool(span.held)
