"""A handler that decodes each event and yields one row change."""

import json
from collections.abc import Iterator

from bench.bench import Bench, sample
from bench.peers.registry import KAFKA_STREAMS, SEQUITUR
from bench.programs import worker
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario
from bench.workload import body


def run(bench: Bench) -> Iterator[Sample]:
    """Sequitur, and Kafka Streams with the same handler in Java."""
    if SEQUITUR.name in bench.peers:
        command = worker("bench.topologies.upsert")
        yield sample(SEQUITUR.name, lambda: measure(bench, command))
    if KAFKA_STREAMS.name in bench.peers:
        yield sample(KAFKA_STREAMS.name, lambda: measure(bench, KAFKA_STREAMS.command()))


def measure(bench: Bench, command: list[str]) -> dict[str, float]:
    """One run over the whole workload, exactly once."""
    work = bench.workload
    with bench.run("exactly_once", outputs=("orders",)) as run:
        run.read(bench.topic(work))
        run.start(command, "upsert", TOPOLOGY=run.job.group, HANDLER="upsert", VIEW="orders")
        timing = run.watch(work.events)
        run.stop()
        run.audit(work.ends, changes)
    return {"rate": timing.rate, "cpu": timing.cpu}


def changes(stream: int, sequence: int) -> list[dict[str, object]]:
    """The row changes that both have to write for an event of the workload."""
    event = json.loads(body(stream, sequence, 0))
    values = {name: event[name] for name in ("seq", "type", "amount")}
    return [{"op": "upsert", "table": "orders", "key": {"stream": stream}, "values": values}]


SCENARIO = Scenario(
    "upsert",
    "With a handler that decodes the event and yields one Upsert, exactly once",
    "Both write the same JSON row change with the same headers; Kafka Streams decodes and encodes"
    " with Jackson's tree model. Every row change is checked, field by field.",
    (
        Column("events/s", "rate"),
        Column("× Kafka Streams", "rate", 2, base=KAFKA_STREAMS.name),
        Column("CPU s per million", "cpu", 1),
    ),
    run,
    {peer.name: peer.title() for peer in (SEQUITUR, KAFKA_STREAMS)},
)
