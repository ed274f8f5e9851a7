"""A backlog: how fast the relay drains it, and whether it gets slower on the way."""

import time
from dataclasses import dataclass

from bench.delivery.filling import fill
from bench.delivery.stage import Stage, Stalled, is_empty, new_log

STALLED = 60.0
"""Seconds without progress."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """rate: messages/s acknowledged by Kafka and deleted, over all. first, last: messages/s in the
    first and the last fifth of them. seconds: from the relay's first message to the empty log."""

    messages: int
    rate: float
    first: float
    last: float
    seconds: float


def backlog(stage: Stage, count: int) -> Backlog:
    """Fill a log, drain it to Kafka by one relay."""
    url, topic = stage.database("backlog"), stage.topic("backlog")
    engine, log = new_log(url)
    fill(engine, log, topic, count)
    looks: list[tuple[float, int]] = [(time.monotonic(), 0)]
    with (
        stage.ends(topic) as ends,
        stage.process("relay-backlog", *stage.relay(url)) as relay,
    ):
        while True:
            offsets, now = ends(), time.monotonic()
            if offsets > looks[-1][1]:
                looks.append((now, offsets))
            elif now - looks[-1][0] > STALLED or relay.poll() is not None:
                raise Stalled(f"the relay is at {looks[-1][1]:,} of {count:,} messages")
            # The last one first: to look at all goes over what is deleted, which takes its time.
            if offsets >= count and is_empty(engine, log, behind=count - 1):
                ended = time.monotonic()
                if is_empty(engine, log):
                    break
            time.sleep(0.05 if count < 200_000 else 0.5)
    engine.dispose()
    # Begins with the first look at which something was there: starting a process is not draining.
    began, had = looks[1]
    seconds = max(ended - began, 1e-9)
    return Backlog(
        count,
        (count - min(had, count)) / seconds if count > had else count / (ended - looks[0][0]),
        _between(looks, 0.0, 0.2),
        _between(looks, 0.8, 1.0),
        seconds,
    )


def _between(looks: list[tuple[float, int]], low: float, high: float) -> float:
    """Messages per second between two shares of all."""
    total = looks[-1][1]
    some = [look for look in looks[1:] if low * total <= look[1] <= high * total]
    if len(some) < 2:
        some = looks[1:] if len(looks) > 2 else looks
    (began, had), (ended, has) = some[0], some[-1]
    return (has - had) / max(ended - began, 1e-9)
