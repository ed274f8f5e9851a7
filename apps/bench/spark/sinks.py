"""How fast records of a filled topic become rows, against writers that protect nothing."""

from collections.abc import Iterator

from bench.bench import Bench, sample
from bench.goals import Goal, ratio
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario
from bench.spark.records import Records
from bench.spark.stores import WRITERS, measured, missing

BATCH = 100_000
"""Records; the materializer's own choice."""
BATCHES = 8


def run(bench: Bench) -> Iterator[Sample]:
    """One run of everything, in turn."""
    size = bench.scaled(BATCH)
    records = Records(BATCHES * size)
    topic = bench.topic(records)
    for subject in WRITERS:
        if subject != "jdbc append" or missing() is None:

            def measure(subject: str = subject) -> dict[str, float]:
                found = measured(bench, subject, topic, records.count, size)
                return {"rate": found["records"] / max(found["seconds"], 1e-6)}

            yield sample(subject, measure)


SCENARIO = Scenario(
    "sinks",
    "Rows a second into a read store, from a filled topic",
    "Every record upserts a row of its own, six columns, 5,000 streams, about 250 bytes. The sinks"
    " are those of the materializer, which runs as it always does: records are fenced by stream and"
    " partition, and a batch is one transaction (Delta Lake: a commit a table). The others only"
    " insert, into a table without a key: Spark's JDBC writer and Delta writer in the same query,"
    " and a loop of a Kafka client, orjson and COPY. All rows are new, which Delta Lake's sink"
    " inserts; rows that are there take it a MERGE."
    " PostgreSQL and SQLite wait for the disk, Delta Lake does not. Eight batches of 100,000"
    " records, as the materializer cuts them; the first one does not count, in which JVM and"
    " writers warm up.",
    (
        Column("rows/s", "rate"),
        Column("× JDBC append", "rate", 2, "jdbc append"),
        Column("× Delta append", "rate", 2, "delta append"),
        Column("× COPY loop", "rate", 2, "copy loop"),
    ),
    run,
    {
        "sqlite": "sink: SQLite",
        "postgresql": "sink: PostgreSQL",
        "delta": "sink: Delta Lake",
        "jdbc append": "Spark's JDBC writer, append (PostgreSQL)",
        "delta append": "Spark's Delta writer, append",
        "copy loop": "psycopg COPY loop, without Spark (PostgreSQL)",
    },
)

GOALS = (
    Goal("SQLite sink, × JDBC append", "sinks", ratio("sqlite", "jdbc append", "rate"), 0.5),
    Goal(
        "PostgreSQL sink, × JDBC append", "sinks", ratio("postgresql", "jdbc append", "rate"), 0.5
    ),
    Goal("Delta Lake sink, × Delta append", "sinks", ratio("delta", "delta append", "rate"), 0.5),
)
