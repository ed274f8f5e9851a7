"""What a unit of work consumes and publishes, and a place in its segments."""

from dataclasses import dataclass
from typing import NamedTuple

Headers = tuple[tuple[str, bytes], ...]
"""Pairs of a name and a value, in order; a name may be there several times."""


@dataclass(slots=True, unsafe_hash=True)
class InboundMessage:
    """A message as a transport delivered it; it is not changed.

    Frozen, it would take four times as long to make, and there is one of each message.

    Attributes:
        topic: where it comes from.
        partition: whose order counts, 0 where a transport has no partitions.
        offset: its position there.
        behind: the position of the next one: what is acknowledged, and sought.
        value: the content; None deletes the key, where topics are compacted.
        key: the record key.
        headers: pairs of a name and a value.
        stream: its stream, where it names one.
        sequence: its sequence in that stream.
        producer_id: the id that its producer gave it.
        replayable: its position is the same when it comes again; not so in a queue.
        redelivered: the broker says that it may have come before.
        damage: why it is not whole; then no rule sees it, and it goes to errors.
        time: the record's, in milliseconds since 1970; 0 where a transport does not tell it.
    """

    topic: str
    partition: int
    offset: int
    behind: int
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    stream: str | None = None
    sequence: int | None = None
    producer_id: str | None = None
    replayable: bool = True
    redelivered: bool = False
    damage: str = ""
    time: int = 0

    @property
    def timestamp(self) -> int:
        """The record's time: what reads contents takes it as a message."""
        return self.time


@dataclass(frozen=True, slots=True)
class OutboundMessage:
    """A message for a destination of a transport.

    Attributes:
        transport: the name of what carries it.
        destination: a topic, a queue, a file.
        value: the content; None deletes the key, where topics are compacted.
        key: the record key.
        headers: pairs of a name and a value.
        stream: its stream, by which receivers order it.
        sequence: its sequence in that stream.
        id: the same whenever it is published again; `identity.py` gives it.
        partition: of the destination, where its key does not decide; it is not saved.
    """

    transport: str
    destination: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    stream: str | None = None
    sequence: int | None = None
    id: str = ""
    partition: int | None = None


class Place(NamedTuple):
    """A segment's number and bytes into it; what is written later has a higher place."""

    number: int
    offset: int


class Pair(NamedTuple):
    """What has segments of its own: an inbound topic and an outbound transport."""

    topic: str
    transport: str

    def __str__(self) -> str:
        return f"{self.topic} → {self.transport}"


@dataclass(frozen=True, slots=True)
class OutboundBatch:
    """What is published, and confirmed, as one; START moves to the place behind it.

    Attributes:
        pair: whose.
        messages: in order.
        behind: the place behind them.
        segment: the name of the segment that they are in; "": of none, as in one process.
        offsets: of each, the bytes of the segment up to its end.
    """

    pair: Pair
    messages: tuple[OutboundMessage, ...]
    behind: Place
    segment: str = ""
    offsets: tuple[int, ...] = ()
