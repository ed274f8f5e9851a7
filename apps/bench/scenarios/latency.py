"""How long an event takes through the engine, at a tenth of what it can do."""

import sys
import time
from collections.abc import Iterator, Mapping

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from bench.bench import FULL, Bench, Run, Wrong, sample
from bench.peers.peer import Peer
from bench.peers.registry import KAFKA_STREAMS, SEQUITUR
from bench.results import Sample, percentile
from bench.scenarios.scenario import Column, Scenario, in_turn

Key = tuple[int, int]
"""An event: stream and sequence."""
Values = dict[str, float]

STREAMS = 5000
SECONDS = 30.0
WARM = 0.5
"""The share at the start that does not count."""
SILENCE = 15.0
FALLBACK = 10_000
"""Events a second where the throughput has not been measured."""


OURS = "Sequitur"
STREAMS_100 = "Kafka Streams, commit interval 100 ms"
STREAMS_10 = "Kafka Streams, commit interval 10 ms"
CONTESTANTS: dict[str, tuple[Peer, dict[str, str]]] = {
    OURS: (SEQUITUR, {}),
    STREAMS_100: (KAFKA_STREAMS, {"COMMIT": "100", "LINGER": "0"}),
    STREAMS_10: (KAFKA_STREAMS, {"COMMIT": "10", "LINGER": "0"}),
}
"""Subject → the peer, and settings of its environment: exactly once, for latency."""


def run(bench: Bench) -> Iterator[Sample]:
    """One stretch at the steady rate for each."""
    for subject, (peer, settings) in in_turn(CONTESTANTS.items(), bench.turn):
        if peer.name in bench.peers:
            yield sample(subject, lambda p=peer, s=settings: measure(bench, p, s))  # type: ignore[misc]


def rate(bench: Bench) -> int:
    """Events a second: as chosen, or a tenth of the throughput."""
    known = bench.results.get("throughput")
    figure = known.figure(SEQUITUR.name, "exactly_once") if known else None
    return bench.rate or (int(figure.median / 10) if figure else FALLBACK)


def measure(bench: Bench, peer: Peer, settings: dict[str, str]) -> dict[str, float]:
    """Send for a while; note when a reader of committed records has each event."""
    per_second = rate(bench)
    seconds = max(3.0, SECONDS * min(1.0, bench.events / FULL))
    total = int(per_second * seconds)
    with bench.run("exactly_once") as run:
        job = run.job
        bench.cluster.stamp_on_append(job.input)
        run.start(peer.command(), peer.name, **settings)
        run.ready(1)
        arguments = (job.broker, job.input, per_second, seconds, STREAMS)
        command = [sys.executable, "-m", "bench.sender", *map(str, arguments)]
        sender = run.start(command, "sender")
        run.programs.remove(sender)
        try:
            seen = {event: now for event, _, now in in_order(run, total)}
        finally:
            sender.kill()
        run.stop()
        appended = {event: (sent, at) for event, sent, at, _ in read(run, job.input, total)}
    return figures(seen, appended)


def figures(seen: Mapping[Key, float], appended: Mapping[Key, tuple[float, float]]) -> Values:
    """When events were seen in the output; when they were sent, and appended to the input; in ms.

    Those sent before the warm-up was over do not count.
    """
    began, ended = min(appended.values())[0], max(appended.values())[0]
    counted = [e for e, (sent, _) in appended.items() if sent >= began + (ended - began) * WARM]
    latencies = sorted(seen[event] - appended[event][1] for event in counted)
    from_sending = sorted(seen[event] - appended[event][0] for event in counted)
    return {
        "rate": len(appended) / max(1.0, ended - began) * 1000,
        "p50": percentile(latencies, 0.5),
        "p99": percentile(latencies, 0.99),
        "p999": percentile(latencies, 0.999),
        "most": latencies[-1],
        "sent": percentile(from_sending, 0.99),
    }


def in_order(run: Run, total: int) -> Iterator[tuple[Key, float, float]]:
    """The output as it comes: event, when sent, and now. Raises Wrong if it is out of order."""
    last: dict[int, int] = {}
    for (stream, sequence), sent, _, now in read(run, run.job.output, total):
        if sequence != last.get(stream, 0) + 1:
            raise Wrong(f"stream {stream} has {sequence} after {last.get(stream, 0)}")
        last[stream] = sequence
        yield (stream, sequence), sent, now


def read(run: Run, topic: str, total: int) -> Iterator[tuple[Key, float, float, float]]:
    """A topic's first `total` committed events: when sent, when appended, and now, in ms.

    Raises TimeoutError where they do not come.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": run.job.broker,
            "group.id": "sequitur-bench-latency",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    partitions = range(run.job.partitions)
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    heard, found = time.monotonic(), 0
    try:
        while found < total:
            message = consumer.poll(0.5)
            now = time.time_ns() / 1e6
            if message is None:
                run.check()
                if time.monotonic() - heard > SILENCE:
                    raise TimeoutError(f"{found:,} of {total:,} events came")
                continue
            if (error := message.error()) is not None:
                raise KafkaException(error)
            event = orjson.loads(message.value() or b"")
            yield (event["stream"], event["seq"]), event["at"] / 1e6, message.timestamp()[1], now
            heard, found = time.monotonic(), found + 1
    finally:
        consumer.close()


SCENARIO = Scenario(
    "latency",
    "From append to the input to a reader of the committed output, ms",
    "Events come at the rate in the first column: `--rate`, or a tenth of the throughput measured"
    " in the same run. The broker stamps events when it appends them to the input; a reader of"
    " committed records takes the time when it has them, so a transaction's"
    " commit and the way to the reader are in it. `p99 from sending` begins at the producer"
    " (linger 5 ms) and ends there as well. Events come in order, so that none waits for another."
    " Kafka Streams' producer has no linger here. The second half of 30 seconds counts.",
    (
        Column("events/s", "rate"),
        Column("p50", "p50", 1),
        Column("p99", "p99", 1),
        Column("p99.9", "p999", 1),
        Column("longest", "most", 1),
        Column("p99 from sending", "sent", 1),
    ),
    run,
)
