"""What arrived in a simulated source, stream by stream, and whether re-keying kept all of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from topology.declaration.source import Source
from topology.engine.commit_unit import Out
from topology.model.errors import Malformed
from topology.model.event import Record
from topology.model.origin_headers import ORIGIN
from topology.testing.simulation.fake_log import FakeLog
from topology.testing.simulation.world import World

Parsed = tuple[int, str, int | None]
"""(number of the message's content, stream, sequence or None where the source cannot have it)."""


@dataclass(slots=True)
class Arrived:
    """A source's events as the by-stream topic has them.

    streams: stream → sequence → number of the first message that had it. received: events per
    partition. since: (stream, sequence) → when it was first appended to the source (ms).
    """

    streams: dict[str, dict[int, int]] = field(default_factory=dict)
    received: list[int] = field(default_factory=list)
    since: dict[tuple[str, int], int] = field(default_factory=dict)
    malformed: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)


class ArrivalReader:
    """Reads sources, and remembers what it made of a message. messages: by their number."""

    def __init__(self) -> None:
        self.messages: list[Record] = []
        self._parsed: dict[tuple[object, ...], Parsed | str] = {}

    def read(self, world: World, source: Source, *, once: bool) -> Arrived:
        """What arrived. once: whether the by-stream topic may not repeat a message."""
        found = Arrived()
        if source.keyed:
            for partition in range(world.partitions):
                received = 0
                place = (source.by_stream, partition)
                for at, out, appended in _visible(world.log, place):
                    parsed = self._parse(source, place, at, out)
                    received += self._take(found, parsed, appended)
                found.received.append(received)
        else:
            self._rekeyed(world, source, found, once)
        return found

    def _rekeyed(self, world: World, source: Source, found: Arrived, once: bool) -> None:
        left: dict[str, tuple[Parsed, int, Out]] = {}
        for topic in source.topics:
            for partition in range(world.partitions):
                place = (topic, partition)
                for at, out, appended in _visible(world.log, place):
                    parsed = self._parse(source, place, at, out)
                    if isinstance(parsed, str):
                        self._take(found, parsed, appended)
                    else:
                        left[f"{topic}/{partition}/{at}"] = parsed, appended, out
        seen: set[str] = set()
        for partition in range(world.partitions):
            received = 0
            for at, (key, value, _, headers), _ in _visible(
                world.log, (source.by_stream, partition)
            ):
                origins = [(text or b"").decode() for name, text in headers if name == ORIGIN]
                origin = "/".join(origins[-1].split("/")[:3]) if origins else ""
                if origin not in left or (origin in seen and once):
                    what = "comes again" if origin in seen else "never came"
                    found.wrong.append(f"{source.by_stream}/{partition} {at}: {origin!r} {what}")
                    continue
                seen.add(origin)
                parsed, appended, out = left[origin]
                stream = parsed[1].encode()
                if (key, value) != (stream, out[1]) or partition != world.partition_of(stream):
                    found.wrong.append(f"{source.by_stream}/{partition} {at} is not as {origin}")
                received += self._take(found, parsed, appended)
            found.received.append(received)
        found.wrong += [
            f"{origin} is not in {source.by_stream}" for origin in left if origin not in seen
        ]

    def _take(self, found: Arrived, parsed: Parsed | str, appended: int) -> int:
        """Note an event; 0 if it is none."""
        if isinstance(parsed, str):
            if parsed == "unknown":
                found.unknown += 1
            else:
                found.malformed += 1
            return 0
        number, stream, sequence = parsed
        if sequence is None:
            found.malformed += 1
            return 0
        found.streams.setdefault(stream, {}).setdefault(sequence, number)
        at = (stream, sequence)
        if found.since.setdefault(at, appended) > appended:
            found.since[at] = appended
        return 1

    def _parse(self, source: Source, place: tuple[str, int], at: int, out: Out) -> Parsed | str:
        key, value, timestamp, headers = out
        content: tuple[object, ...] = (place[0], key, value, *headers)
        if source.fed_by:
            # Its sequence is the offset; verbs may go by when it was written.
            content = (*place, at, timestamp, *content)
        parsed = self._parsed.get(content)
        if parsed is None:
            message = Record(*place, at, key, value, headers, timestamp)
            try:
                inspected = source.inspect(message)
            except Malformed:
                parsed = "malformed"
            else:
                if inspected is None:
                    parsed = "unknown"
                else:
                    stream, sequence = inspected[:2]
                    order = source.sequence
                    fits = sequence >= order.start and not (sequence - order.start) % order.step
                    parsed = len(self.messages), stream, sequence if fits else None
                    self.messages.append(message)
            self._parsed[content] = parsed
        return parsed


def _visible(log: FakeLog, place: tuple[str, int]) -> Iterator[tuple[int, Out, int]]:
    """(offset, record, when it was appended) of committed records."""
    partition = log.partition(place)
    for at in range(partition.end):
        if (out := partition.records[at]) is not None:
            yield at, out, partition.appended[at]
