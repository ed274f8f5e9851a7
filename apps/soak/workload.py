"""Input for the soak: streams of numbered events, late and twice, and what they should come to."""

import random
from collections import defaultdict
from dataclasses import dataclass

import orjson

from apps.soak import fold


@dataclass(frozen=True)
class Workload:
    """messages: (record key, value) as they arrive. totals: stream → (last sequence, total)."""

    messages: list[tuple[bytes, bytes]]
    totals: dict[str, tuple[int, int]]


def workload(
    events: int, streams: int, seed: int, late: float = 0.2, twice: float = 0.1
) -> Workload:
    """`events` distinct events; a share arrives late, a share twice, none is lost."""
    chance = random.Random(seed)
    last: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    arrivals: list[tuple[float, bytes, bytes]] = []
    reach = 30 * streams
    for at in range(events):
        stream = f"s{chance.randrange(streams)}"
        last[stream] += 1
        amount = chance.randrange(1, 1_000_000)
        total[stream] = fold(total[stream], amount)
        value = orjson.dumps({"stream": stream, "seq": last[stream], "amount": amount})
        # The record key is not the stream, so that one stream comes by several partitions.
        key = b"%d" % chance.randrange(97)
        delay = chance.randrange(1, reach) if chance.random() < late else 0
        arrivals.append((at + delay, key, value))
        if chance.random() < twice:
            arrivals.append((at + chance.randrange(1, reach), key, value))
    arrivals.sort(key=lambda arrival: arrival[0])
    totals = {stream: (last[stream], total[stream]) for stream in last}
    return Workload([(key, value) for _, key, value in arrivals], totals)
