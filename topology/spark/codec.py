"""Messages of a stream, and outputs of its step, as one value each.

What goes through Spark goes row by row between its JVM and Python, at a price per row and column.
So a row has one column: a line of JSON that says what there is, and the bodies behind it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from topology.model.counts import saturated
from topology.model.event import Message, Record

REPORTS = 100
"""Lines for the log that one step of a stream may send to the driver."""


def encode_messages(messages: Iterable[Message]) -> bytes:
    """Messages as one value."""
    head: list[Any] = []
    bodies: list[bytes] = []
    for message in messages:
        value = message.value
        head.append(
            (
                message.topic,
                message.partition,
                message.offset,
                message.timestamp,
                _text(message.key),
                [(name, _text(found)) for name, found in message.headers],
                -1 if value is None else len(value),
            )
        )
        if value:
            bodies.append(value)
    return orjson.dumps(head) + b"\n" + b"".join(bodies)


def decode_messages(packed: bytes) -> Iterator[Record]:
    """The messages of such a value."""
    at = packed.index(b"\n") + 1
    for topic, partition, offset, timestamp, key, headers, size in orjson.loads(packed[:at]):
        value = None if size < 0 else packed[at : at + size]
        at += max(size, 0)
        found = tuple((name, _bytes(text)) for name, text in headers)
        yield Record(topic, partition, offset, _bytes(key), value, found, timestamp)  # type: ignore[arg-type]


class OutgoingRecord(NamedTuple):
    """A record to write. partition: of a topic with `inputs` partitions; the key decides where
    there are others, and where it is -1."""

    topic: str
    partition: int
    inputs: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


@dataclass(slots=True)
class Outcome:
    """What a step of a stream comes to, or the inspection of some messages.

    records: to write, in order per topic. counts: view → count → by how much it is higher now;
    those of a source's messages have the source's name with '<' in front, as no view's name has.
    reports: lines for the log.
    """

    records: list[OutgoingRecord] = field(default_factory=list)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.records or self.counts or self.reports)

    def count(self, name: str, counts: Mapping[str, int]) -> None:
        """Add to the counts of a view."""
        found = self.counts.setdefault(name, {})
        for what, number in counts.items():
            found[what] = saturated(found.get(what, 0) + number)


def encode_outcome(outcome: Outcome) -> bytes:
    """An outcome as one value."""
    records = [
        (
            sent.topic,
            sent.partition,
            sent.inputs,
            _text(sent.key),
            [(name, _text(found)) for name, found in sent.headers],
            -1 if sent.value is None else len(sent.value),
        )
        for sent in outcome.records
    ]
    reports = [_readable(line) for line in outcome.reports[:REPORTS]]
    if (left := len(outcome.reports) - REPORTS) > 0:
        reports.append(f"and {left} lines more")
    head = orjson.dumps((records, outcome.counts, reports))
    return head + b"\n" + b"".join(sent.value for sent in outcome.records if sent.value)


def decode_outcome(packed: bytes) -> Outcome:
    """The outcome of such a value."""
    at = packed.index(b"\n") + 1
    records, counts, reports = orjson.loads(packed[:at])
    found: list[OutgoingRecord] = []
    for topic, partition, inputs, key, headers, size in records:
        value = None if size < 0 else packed[at : at + size]
        at += max(size, 0)
        named = [(name, _bytes(text)) for name, text in headers]
        found.append(OutgoingRecord(topic, partition, inputs, _bytes(key), value, named))
    return Outcome(found, counts, reports)


def in_order(messages: Sequence[Record]) -> list[Record]:
    """Messages in the order that a step takes them, whatever order Spark delivers them in.

    Each partition's by offset; partitions side by side by the messages' own time, so that none is
    far ahead. It depends on the messages alone: a batch that is run again runs the same way.
    """
    places: dict[tuple[str, int], list[Record]] = {}
    for message in messages:
        places.setdefault((message.topic, message.partition), []).append(message)
    lanes = [sorted(places[place], key=_offset) for place in sorted(places)]
    if len(lanes) == 1:
        return lanes[0]
    found: list[tuple[int, int, int, Record]] = []
    for number, lane in enumerate(lanes):
        reached = 0
        for at, message in enumerate(lane):
            # A partition's order is by offset, even where its producers' clocks say otherwise.
            reached = max(reached, message.timestamp)
            found.append((reached, number, at, message))
    found.sort(key=lambda each: each[:3])
    return [message for *_, message in found]


def _offset(message: Record) -> int:
    return message.offset


def _text(found: bytes | None) -> str | None:
    return None if found is None else found.decode("latin-1")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


def _readable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
