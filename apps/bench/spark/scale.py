"""Whether an event costs as much among many as among few: materialized, and rebuilt."""

import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial

from bench.bench import Bench, Run, Wrong, sample
from bench.goals import Goal, ratio
from bench.programs import worker
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario
from bench.spark.rebuild import PATIENCE, finished
from bench.spark.records import Records
from bench.spark.stores import measured
from bench.workload import Workload

SIZES = {"10⁵": 100_000, "10⁶": 1_000_000, "10⁷": 10_000_000}
FEW, MANY = "10⁵", "10⁷"
SINKS = {"sqlite": "10⁶", "postgresql": MANY, "delta": "10⁶"}
"""Store → up to where: what is left out takes as long as all the rest."""
BATCHES = 2
"""Of the fewest records; more records are more batches of the same size."""
STREAMS = 5_000
TOPOLOGY = "bench.topologies.upsert"


def run(bench: Bench) -> Iterator[Sample]:
    """All sizes."""
    for subject, size in SIZES.items():
        count = bench.scaled(size)
        yield sample(subject, partial(_rebuilt, bench, count))
        for kind, most in SINKS.items():
            if size <= SIZES[most]:
                yield sample(subject, partial(_materialized, bench, kind, count))


def _materialized(bench: Bench, kind: str, count: int) -> dict[str, float]:
    topic = bench.topic(Records(count))
    found = measured(bench, kind, topic, count, max(1, bench.scaled(SIZES[FEW]) // BATCHES))
    return {kind: found["seconds"] / found["records"] * 1e6}


def _rebuilt(bench: Bench, count: int) -> dict[str, float]:
    """A worker takes all events, then its view is rebuilt from them."""
    work = Workload(count, STREAMS, pad=20)
    with bench.run("exactly_once") as run:
        bench.cluster.fill(run.job.input, work.messages)
        names = {"TOPOLOGY": run.job.group, "SEQUITUR_BROKER": run.job.broker}
        live = run.start(worker(TOPOLOGY), "worker", **names)
        run.until(partial(_done, run), "the worker is not done", PATIENCE)
        live.stop()
        run.programs.remove(live)
        store = run.job.datadir / "read.db"
        command = [sys.executable, "-m", "sequitur", "rebuild", "run", "--app", TOPOLOGY]
        command += ["--view", "orders", "--read-store", f"sqlite:///{store}", "--cores", "2"]
        command += ["--work", str(run.job.datadir / "work")]
        job = run.start(command, "rebuild", **names)
        run.programs.remove(job)  # it is to end
        try:
            events, seconds = finished(job, "orders", time.monotonic() + PATIENCE)
        finally:
            job.stop()
        with closing(sqlite3.connect(store)) as connection:
            (last,) = connection.execute('SELECT sum("seq") FROM "orders"').fetchone()
    if not events == last == count:
        raise Wrong(f"{events:,} events rebuilt, rows that add up to {last}, of {count:,}")
    return {"rebuild": seconds / count * 1e6}


def _done(run: Run) -> bool:
    return run.cluster.lag(run.job.group, run.job.input, run.job.partitions) == 0


SCENARIO = Scenario(
    "scale",
    "What an event costs among 10⁵, 10⁶ and 10⁷ of them, µs",
    "Materialized as above, in batches of 50,000 records: each is a row of its own, so the tables"
    " grow to as many rows. Rebuilt on 2 cores: a view of 5,000 streams with a row each, without"
    " the start of Spark; that it had all events is checked.",
    (
        Column("SQLite", "sqlite", 1),
        Column("PostgreSQL", "postgresql", 1),
        Column("Delta Lake", "delta", 1),
        Column("rebuild", "rebuild", 1),
    ),
    run,
)

GOALS = tuple(
    Goal(f"{text}, {most} events: cost of one, × 10⁵", "scale", ratio(most, FEW, value), 1.2, False)
    for value, text, most in (
        ("sqlite", "SQLite sink", "10⁶"),
        ("postgresql", "PostgreSQL sink", MANY),
        ("delta", "Delta Lake sink", "10⁶"),
        ("rebuild", "rebuild", MANY),
    )
)
