"""Events for measuring: numbered per stream, some late, some twice, none lost."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Message = tuple[bytes, bytes]
"""(record key, value): the key is the stream's number in decimal."""


def body(stream: int, sequence: int, pad: int) -> bytes:
    """An event's JSON: about `pad` + 70 bytes, the sequence in the field `seq`."""
    return b'{"stream":%d,"seq":%d,"type":"OrderPaid","amount":12.5,"note":"%s"}' % (
        stream,
        sequence,
        b"x" * pad,
    )


@dataclass(frozen=True)
class Workload:
    """`events` distinct events over `streams` streams.

    late: the share that arrives late, by up to the time of `reach` / 4 events of a stream. dup: the
    share that arrives twice, the second time by up to `reach` / 2 later. pad: bytes that fill each
    event up.
    """

    events: int
    streams: int = 5000
    late: float = 0.10
    dup: float = 0.05
    reach: int = 8
    pad: int = 120
    seed: int = 7

    @cached_property
    def messages(self) -> list[Message]:
        """All messages in the order in which they arrive."""
        stream, sequence = self._numbers
        chance = np.random.default_rng([self.seed, 1])
        at = np.arange(self.events)
        delay = chance.integers(1, max(2, self.reach * self.streams // 4), self.events)
        arrival = at + np.where(chance.random(self.events) < self.late, delay, 0)
        twice = at[chance.random(self.events) < self.dup]
        again = twice + chance.integers(1, max(2, self.reach * self.streams // 2), len(twice))
        event = np.concatenate([at, twice])
        order = event[np.argsort(np.concatenate([arrival, again]), kind="stable")]
        form = body(0, 0, self.pad).replace(b":0,", b":%d,")
        return [
            (b"%d" % number, form % (number, position))
            for number, position in zip(
                stream[order].tolist(), sequence[order].tolist(), strict=True
            )
        ]

    @cached_property
    def ends(self) -> dict[str, int]:
        """Stream → its last sequence."""
        counts = np.bincount(self._numbers[0], minlength=self.streams).tolist()
        return {str(number): count for number, count in enumerate(counts) if count}

    @cached_property
    def _numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Stream and sequence of each event, in the order in which they happened."""
        stream = np.random.default_rng([self.seed, 0]).integers(0, self.streams, self.events)
        by_stream = np.argsort(stream, kind="stable")
        counts = np.bincount(stream, minlength=self.streams)
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        sequence = np.empty(self.events, dtype=np.int64)
        sequence[by_stream] = np.arange(self.events) - starts + 1
        return stream, sequence


def rounds(streams: int, sequences: range, pad: int = 120) -> Iterator[Message]:
    """Each of these sequences of every stream, in order: all first ones, all second ones …"""
    for sequence in sequences:
        for stream in range(streams):
            yield b"%d" % stream, body(stream, sequence, pad)
