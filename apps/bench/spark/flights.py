"""Flights from a backlog in their topic to the last row of a read store."""

from collections.abc import Iterator
from functools import partial

from bench.bench import Bench, sample
from bench.goals import Goal, figure
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario
from bench.spark.rebuild import Flights
from bench.spark.stores import place

SUBJECTS = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def run(bench: Bench) -> Iterator[Sample]:
    """One run into each store."""
    for subject in SUBJECTS:
        yield sample(subject, partial(_measure, bench, subject))


def _measure(bench: Bench, subject: str) -> dict[str, float]:
    with place(subject, bench.folder / "data") as url:
        flights = Flights(bench, url)
        try:
            return flights.live()
        finally:
            flights.forget()


SCENARIO = Scenario(
    "flights",
    "The flights from a backlog in their topic to the last row of a read store",
    "Movements of aircraft, some late, some twice, none lost, come at once into a topic that is not"
    " keyed; 2.5 row changes come of each. One worker and one materializer, with their usual"
    " settings, wait for them, and share the machine with the broker and the store. The rate is"
    " that of movements until the last row change is in the store. CPU is that of the worker, and"
    " of the materializer's Python and its JVM, in microseconds a movement; what is left of the"
    " cores is for the broker, for PostgreSQL, and for waiting.",
    (
        Column("movements/s", "rate"),
        Column("CPU of the worker, µs", "worker", 1),
        Column("of the materializer's Python", "python", 1),
        Column("of its JVM", "jvm", 1),
    ),
    run,
    SUBJECTS,
)

GOALS = tuple(
    Goal(
        f"flights to the last row, {store}, movements/s",
        "flights",
        figure(subject, "rate"),
        20_000,
        digits=0,
    )
    for subject, store in SUBJECTS.items()
)
