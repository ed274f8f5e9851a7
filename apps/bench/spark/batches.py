"""How long a row takes into a read store when little comes."""

import threading
import time
from collections.abc import Iterator
from uuid import uuid4

from bench.bench import FULL, PARTITIONS, Bench, sample
from bench.goals import Goal, figure
from bench.results import Sample, percentile
from bench.scenarios.scenario import Column, Scenario
from bench.spark.records import record
from bench.spark.stores import measured

RATE = 20
"""Records a second."""
SECONDS = 30.0
"""That count."""
WARM = 60.0
"""Seconds at the start that do not count: Spark starts, makes tables, and is compiled."""
SUBJECTS = ("sqlite", "postgresql", "delta")


def run(bench: Bench) -> Iterator[Sample]:
    """A stretch at the steady rate for each sink."""
    for subject in SUBJECTS:

        def measure(subject: str = subject) -> dict[str, float]:
            return _measure(bench, subject)

        yield sample(subject, measure)


def _measure(bench: Bench, subject: str) -> dict[str, float]:
    topic = f"bench-{uuid4().hex[:8]}.slow"
    bench.cluster.create({topic: PARTITIONS})
    full = min(1.0, bench.events / FULL)
    warm = int(RATE * max(15.0, WARM * full))
    total = warm + int(RATE * max(3.0, SECONDS * full))
    sending = threading.Thread(target=_send, args=(bench, topic, total), daemon=True)
    sending.start()
    try:
        found = measured(bench, subject, topic, total, total)
    finally:
        sending.join()
        bench.cluster.delete(topic)
    counted, seen = [], 0
    for records, took, latencies in found["batches"]:
        seen += records
        if seen > warm:
            counted.append((records, took, latencies))
    latencies = sorted(latency for _, _, each in counted for latency in each)
    took = sorted(took * 1000 for _, took, _ in counted)
    return {
        "p50": percentile(latencies, 0.5),
        "p99": percentile(latencies, 0.99),
        "batch": percentile(took, 0.5),
        "records": sum(each[0] for each in counted) / len(counted),
    }


def _send(bench: Bench, topic: str, total: int) -> None:
    began = time.monotonic()
    for number in range(total):
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        bench.cluster.fill(topic, [record(number, time.time())])


SCENARIO = Scenario(
    "batches",
    "From sending a record to its row in the read store at 20 records/s, ms",
    "The materializer with its usual settings (a look for records every 100 ms at most). Records"
    f" are sent for {WARM + SECONDS:.0f} s, of which the first {WARM:.0f} do not count. The time"
    " ends when the batch is committed. `batch` is the sink's part of a micro-batch; Spark's own"
    " notes of a batch, before and behind it, are in the latency.",
    (
        Column("p50", "p50"),
        Column("p99", "p99"),
        Column("batch, p50", "batch"),
        Column("records a batch", "records", 1),
    ),
    run,
    {
        "sqlite": "sink: SQLite",
        "postgresql": "sink: PostgreSQL",
        "delta": "sink: Delta Lake",
    },
)

GOALS = (
    Goal(
        "Delta Lake, from record to row, p50, ms",
        "batches",
        figure("delta", "p50"),
        2_000,
        at_least=False,
        digits=0,
    ),
)
