"""How long a movement takes into a table that is read live: without a hop, and over one."""

import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from threading import Thread
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Message, TopicPartition

from bench.bench import Bench, Run, Wrong
from bench.cluster import Sent
from bench.results import percentile
from bench.verbs.contestants import Contestant

RATE, SECONDS = 1_000, 20
"""Movements a second, and for how long."""
WARM = 0.2
"""The share at the start that does not count."""
SILENCE = 10.0
"""Seconds without a record after which no more are expected."""


def latencies(
    bench: Bench, who: Contestant, table: str, messages: Iterator[Sent]
) -> dict[str, float]:
    """From sending a movement to a reader of committed records, in ms: p50 and p99. Raises Wrong.

    What several movements changed may be told once: it counts for the last of them.
    """
    with bench.run("exactly_once", outputs=(table,), partitions=1) as run:
        told = {"TOPOLOGY": run.job.group, "TABLES": table, "WEATHER": f"{run.job.group}.reports"}
        run.start(who.command(), f"{who.name.replace(' ', '-')}-live", **told, **who.environment)
        run.ready(1)
        some = list(islice(messages, RATE * SECONDS))
        sender = Thread(target=_send, args=(run, some), daemon=True)
        found = list(_seen(run, sender))
        sender.join()
    warm = min((at for _, at in found), default=0.0) + SECONDS * 1000 * WARM
    counted = sorted(ms for ms, at in found if at >= warm)
    if not counted:
        raise Wrong(f"nothing came of what was sent after {SECONDS * WARM:.0f} s")
    return {f"{table}_p50": percentile(counted, 0.5), f"{table}_p99": percentile(counted, 0.99)}


def _send(run: Run, messages: list[Sent]) -> None:
    producer, began = run.cluster.producer({"linger.ms": 5}), time.monotonic()
    for number, (key, value) in enumerate(messages):
        if (early := began + number / RATE - time.monotonic()) > 0:
            producer.poll(early)
        # A trace context goes through views and hops, and this one's id is when it began.
        trace = f"00-{time.time_ns():032x}-{1:016x}-01"
        producer.produce(run.job.input, value, key, headers={"traceparent": trace})
    producer.flush(30)


def _seen(run: Run, sender: Thread) -> Iterator[tuple[float, float]]:
    """(latency, when sent) of what comes, in ms."""
    settings = {
        "bootstrap.servers": run.job.broker,
        "group.id": "sequitur-bench-latency",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 10,
    }
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(run.outputs[0], 0, OFFSET_END)])
        consumer.poll(1.0)
        sender.start()
        heard = time.monotonic()
        while sender.is_alive() or time.monotonic() - heard < SILENCE:
            message = consumer.poll(0.5)
            now = time.time_ns() / 1e6
            if message is None:
                run.check()
                continue
            if (error := message.error()) is not None:
                raise KafkaException(error)
            heard = time.monotonic()
            at = _sent_at(message)
            yield now - at, at


def _sent_at(message: Message) -> float:
    """When the trace of a record began, in ms since 1970."""
    headers: Any = message.headers() or []
    return int(dict(headers)["traceparent"].split(b"-")[1], 16) / 1e6
