"""How fast records become rows of which half are there, by random keys."""

from collections.abc import Iterator
from functools import partial

from bench.bench import Bench, sample
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario
from bench.spark.batches import SUBJECTS
from bench.spark.records import Records
from bench.spark.sinks import BATCH, BATCHES
from bench.spark.sinks import SCENARIO as NEW_ROWS
from bench.spark.stores import measured


def run(bench: Bench) -> Iterator[Sample]:
    """One run of each sink."""
    size = bench.scaled(BATCH)
    records = Records(BATCHES * size, updates=True)
    topic = bench.topic(records)
    for subject in SUBJECTS:
        yield sample(subject, partial(_measure, bench, subject, topic, records.count, size))


def _measure(bench: Bench, subject: str, topic: str, records: int, size: int) -> dict[str, float]:
    found = measured(bench, subject, topic, records, size)
    return {"rate": found["records"] / max(found["seconds"], 1e-6)}


SCENARIO = Scenario(
    "updates",
    "Rows a second into a read store, of which half are there",
    "As above, but every second record of a stream updates one of its rows, chosen at random, and"
    " keys are random numbers, so that a batch touches all of a table.",
    (Column("rows/s", "rate"),),
    run,
    {subject: NEW_ROWS.subjects[subject] for subject in SUBJECTS},
)

GOALS = ()
