"""The segments of a pair, with START and END of each: what may become of them. Pure.

    ──published──┤START──to publish──┤END──not promised──

The consumer moves END, opens and seals; the publisher moves START. Every step goes forward.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from stores.segments.errors import SegmentError
from stores.segments.message import Pair, Place

PER_GENERATION = 1_000_000
"""Segments that one generation of a consumer may open; their numbers are above all earlier ones."""
_LENGTH = 210
"""Characters of the three names together; with a time and a number they are a file's name."""
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment: what is before `start` is published; a sealed one keeps its `end`."""

    number: int
    name: str
    start: int = 0
    end: int = 0
    sealed: bool = False

    @property
    def finished(self) -> bool:
        """Whether nobody needs it any more."""
        return self.sealed and self.start == self.end


@dataclass(frozen=True, slots=True)
class SegmentChain:
    """The segments of a pair by number, without those that are removed."""

    pair: Pair
    segments: tuple[Segment, ...] = ()

    def check_number(self, number: int, name: str) -> None:
        """Raise SegmentError unless a segment of that number may follow."""
        if self.segments and number <= self.segments[-1].number:
            raise SegmentError(
                f"segment {name}: number {number} is not above {self.segments[-1].number}; another "
                "generation owns the segments by now, start over"
            )

    def published(self, behind: Place) -> "SegmentChain":
        """Move START, of the first segment that has something to publish; finished ones go.

        Raises:
            SegmentError: it is not between START and END.
        """
        next_one = self.to_publish
        if (
            next_one is None
            or next_one.number != behind.number
            or not next_one.start <= behind.offset <= next_one.end
        ):
            raise SegmentError(f"{self.pair}: START cannot move to {behind} of {next_one}")
        moved = replace(next_one, start=behind.offset)
        return replace(self, segments=tuple(moved if s is next_one else s for s in self.segments))

    def resumed(self, known: Place | None, generation: int) -> "SegmentChain":
        """Move START to what the destination itself knows, which beats what SQL knows.

        Args:
            known: the place behind what it has, None where it keeps none.
            generation: the last one of the topic's consumers.

        Raises:
            SegmentError: the destination knows of more than was ever promised.
        """
        if known is None:
            return self
        last = self.segments[-1] if self.segments else None
        named = next((s for s in self.segments if s.number == known.number), None)
        ahead = named is not None and known.offset > named.end
        ahead = ahead or known.number // PER_GENERATION > generation
        if ahead or (last is not None and last.number < known.number and self.backlog):
            raise SegmentError(
                f"{self.pair}: the destination has more than was ever promised, up to {known}; the "
                f"last segment is {last}; the database is older than the destination: restore a "
                "later one"
            )
        return self.moved(known)

    def moved(self, start: Place) -> "SegmentChain":
        """Move START to a place, in the segments that there are."""
        segments = []
        for each in self.segments:
            if each.number == start.number:
                each = replace(each, start=start.offset)
            elif each.number < start.number:
                each = replace(each, start=each.end)
            segments.append(each)
        return replace(self, segments=tuple(segments))

    @property
    def to_publish(self) -> Segment | None:
        """The first segment that has something to publish."""
        return next((each for each in self.segments if each.start < each.end), None)

    @property
    def backlog(self) -> int:
        """Bytes that are to be published."""
        return sum(each.end - each.start for each in self.segments)


@dataclass(frozen=True, slots=True)
class Backpressure:
    """Which transports have too much to publish; the consumers that feed these wait.

    Attributes:
        full: transport → bytes that are to be published.
    """

    full: Mapping[str, int]

    @property
    def paused(self) -> bool:
        """Whether the source waits."""
        return bool(self.full)

    def next(self, backlogs: Mapping[str, int], limit: int) -> "Backpressure":
        """Say what holds now: who is full stays so until half of the limit is published."""
        return Backpressure(
            {
                name: size
                for name, size in backlogs.items()
                if size >= (limit // 2 + 1 if name in self.full else limit)
            }
        )


def segment_number(generation: int, count: int) -> int:
    """Return the number of a segment: the `count`-th, from 0 on, of a consumer's generation."""
    if count >= PER_GENERATION:
        raise SegmentError(f"generation {generation} has opened {count} segments; start it over")
    return generation * PER_GENERATION + count


def generation_of(name: str) -> int:
    """Return the generation of the consumer that opened a segment, by the segment's name."""
    number = name.removesuffix(".segment").rpartition("-")[2]
    return int(number) // PER_GENERATION if number.isdecimal() else 0


def segment_prefix(router: str, pair: Pair) -> str:
    """What the names of a pair's segments begin with, and no others.

    Raises:
        ValueError: a name cannot be part of a file's.
    """
    names = (router, *pair)
    for each in names:
        if not _NAME.fullmatch(each) or sum(map(len, names)) > _LENGTH:
            raise ValueError(
                f"{each!r}: routers, topics and transports with segments have the letters A-Z a-z "
                f"0-9 . _ - and no dot in front, and together {_LENGTH} of them at most"
            )
    return f"{router}+{pair.topic}+{pair.transport}+"


def segment_name(router: str, pair: Pair, number: int, now: float) -> str:
    """Name a segment by router, topic, transport and time (seconds since 1970)."""
    at = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S")
    return f"{segment_prefix(router, pair)}{at}-{number}.segment"
