"""What the driver takes where executors write: no more memory for larger batches."""

from collections.abc import Iterator
from functools import partial

from bench.bench import Bench, sample
from bench.goals import Goal, ratio
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario
from bench.spark.records import Records
from bench.spark.stores import ON_CLUSTER, measured

SIZES = (50_000, 200_000)
"""Records of a batch."""
BATCHES = 4
"""Of the larger ones."""


def run(bench: Bench) -> Iterator[Sample]:
    """One run of each."""
    records = Records(BATCHES * bench.scaled(max(SIZES)))
    topic = bench.topic(records)
    for subject, who in ON_CLUSTER.items():
        for size in SIZES:
            measure = partial(_measure, bench, who, topic, records.count, bench.scaled(size))
            yield sample(_named(subject, size), measure)


def _named(subject: str, size: int) -> str:
    return f"{subject}, batches of {size:,}"


def _measure(bench: Bench, who: str, topic: str, records: int, size: int) -> dict[str, float]:
    found = measured(bench, who, topic, records, size)
    used, millions = found["used"], found["records"] / 1e6
    return {
        "rate": found["records"] / max(found["seconds"], 1e-6),
        **{name: v / millions if name.startswith("cpu") else v for name, v in used.items()},
    }


SCENARIO = Scenario(
    "driver",
    "What the driver takes to write a read store, on a cluster of two executors",
    "`local-cluster[2,1,1024]`, each executor a process with one core and 512 MB of heap, and a"
    " driver with 1 GB, on the cores of this machine. The records of above, written by the driver"
    " alone, as small batches are, and by the executors. CPU is that of the driver's Python and of"
    " its JVM, after the first batch; memory the most that they had. Heaps are larger"
    " than what is in them.",
    (
        Column("rows/s", "rate"),
        Column("Python, CPU s per million records", "cpu python", 2),
        Column("JVM, CPU s", "cpu jvm", 2),
        Column("Python, MB", "memory python"),
        Column("JVM, MB", "memory jvm"),
    ),
    run,
)

GOALS = tuple(
    Goal(
        f"{subject}: memory of the driver's Python, batches of {SIZES[1]:,}, × of {SIZES[0]:,}",
        "driver",
        ratio(_named(subject, SIZES[1]), _named(subject, SIZES[0]), "memory python"),
        1.2,
        at_least=False,
    )
    for subject, who in ON_CLUSTER.items()
    if who.endswith("executors")
)
