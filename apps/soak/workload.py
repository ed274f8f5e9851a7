"""Input for the soak: streams of numbered events, late and twice, and what they should come to."""

import random
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import orjson

from soak import fold


@dataclass(frozen=True)
class Workload:
    """messages: (record key, value) as they arrive. totals: stream → (last sequence, total)."""

    messages: list[tuple[bytes, bytes]]
    totals: dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Shape:
    """How a round's input is disordered.

    streams: so many. late, twice: shares of the events. reach: how many events of its stream
    overtake a late one at most. hot: the share of events that one stream has, which arrive shuffled
    in blocks of `block`. ring: of the view whose events come again: with 16 slots so many of one
    stream would go round for hours, as `redeliver()` says of itself.
    """

    name: str
    streams: int
    late: float = 0.2
    twice: float = 0.1
    reach: int = 30
    hot: float = 0.0
    block: int = 5_000
    ring: int = 16


SHAPES = (
    Shape("300 streams", 300),
    Shape("60,000 streams, 30% late", 60_000, late=0.3, reach=40),
    Shape("reach 500", 300, late=0.3, reach=500),
    Shape("a hot stream in blocks of 5,000", 2_000, hot=0.2, ring=8_192),
)


def workload(events: int, streams: int, seed: int, **disorder: Any) -> Workload:
    """`events` distinct events, none is lost. disorder: of a Shape."""
    return shaped(events, Shape("", streams, **disorder), seed)


def shaped(events: int, shape: Shape, seed: int) -> Workload:
    """`events` distinct events in that disorder; none is lost."""
    chance = random.Random(seed)
    last: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    arrivals: list[tuple[float, bytes, bytes]] = []
    # Half of the input at most: what is late beyond its end is not.
    reach = min(shape.reach * shape.streams, events // 2)
    hot = 0
    for at in range(events):
        is_hot = chance.random() < shape.hot
        stream = "hot" if is_hot else f"s{chance.randrange(shape.streams)}"
        last[stream] += 1
        amount = chance.randrange(1, 1_000_000)
        total[stream] = fold(total[stream], amount)
        value = orjson.dumps({"stream": stream, "seq": last[stream], "amount": amount})
        # The record key is not the stream, so that one stream comes by several partitions.
        key = b"%d" % chance.randrange(97)
        delay = float(chance.randrange(1, reach)) if chance.random() < shape.late else 0.0
        if is_hot:
            # Anywhere in the time that its block takes.
            length = shape.block / shape.hot
            delay = (hot // shape.block + chance.random()) * length - at
            hot += 1
        arrivals.append((at + delay, key, value))
        if chance.random() < shape.twice:
            arrivals.append((at + chance.randrange(1, reach), key, value))
    arrivals.sort(key=lambda arrival: arrival[0])
    totals = {stream: (last[stream], total[stream]) for stream in last}
    return Workload([(key, value) for _, key, value in arrivals], totals)
