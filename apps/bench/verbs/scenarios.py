"""What is measured of the verbs: the rows that are wrong, and what a table costs."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice, product

import orjson

from bench.bench import PARTITIONS, Bench, sample
from bench.goals import Goal, figure, ratio
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario
from bench.verbs.contestants import (
    ALL,
    COSTED,
    KAFKA_STREAMS_2,
    ON_TWO,
    SEQUITUR,
    SEQUITUR_2,
    Contestant,
)
from bench.verbs.deliveries import DELIVERIES, SKIP, Delivery, Flights
from bench.verbs.in_process import tables as in_process
from bench.verbs.latency import RATE, latencies
from bench.verbs.tables import TABLES, Table, expected, table_of, wrong
from bench.verbs.topology import SETTLE
from bench.workload import Message
from soak.check import read

PARTITION = 1
"""Partitions for one core: with more, a re-key alone would change the order, also where all arrives
in it."""
_COSTS = "late"
"""The delivery for which it is measured what a table costs."""


FIRST = 50_000
"""Movements that are there before all others, at most a quarter of all: who has put out what comes
of them is ready, and a JVM has compiled most. The longest grace is over within them."""


def _happened(messages: Iterator[Message], early: int) -> Iterator[int]:
    """When events happened, less `early` ms."""
    for _, value in messages:
        yield int(datetime.fromisoformat(orjson.loads(value)["time"]).timestamp() * 1000) - early


def split(reports: list[Message], early: int) -> tuple[list[Message], list[Message]]:
    """The first reports, which are there before all others, and the others.

    What is older than one of its airport's that is there is there, too: no network has held it back
    for as long as a program takes to start.
    """
    newest: dict[bytes | None, str] = {}
    for key, value in reports[:early]:
        newest[key] = max(newest.get(key, ""), orjson.loads(value)["time"])
    there, others = reports[:early], list[Message]()
    for key, value in reports[early:]:
        old = orjson.loads(value)["time"] <= newest.get(key, "")
        (there if old else others).append((key, value))
    return there, others


@dataclass
class Stage:
    """The flights, once for all runs, and what pandas makes of each delivery."""

    flights: dict[int, Flights] = field(default_factory=dict)
    right: dict[tuple[int, str], dict[str, Table]] = field(default_factory=dict)

    def of(self, count: int) -> Flights:
        """The first `count` movements."""
        if count not in self.flights:
            self.flights[count] = Flights(count)
        return self.flights[count]

    def expected(self, count: int, delivery: Delivery) -> dict[str, Table]:
        """The tables of those that arrive."""
        key = count, delivery.title
        if key not in self.right:
            self.right[key] = expected(self.of(count), delivery)
        return self.right[key]


STAGE = Stage()
OURS = (SEQUITUR, SEQUITUR_2)


def measure(
    bench: Bench, who: Contestant, delivery: Delivery, tables: tuple[str, ...]
) -> dict[str, float]:
    """Let one make some tables of one delivery, and compare them with those of pandas."""
    flights, right = STAGE.of(bench.events), STAGE.expected(bench.events, delivery)
    first = min(FIRST, bench.events // 4)
    partitions = PARTITION if who.cores == 1 else PARTITIONS
    moves = flights.moved(delivery)
    early, late = split(
        list(flights.reported(delivery)), first * len(flights.reports) // bench.events
    )
    with (
        bench.run("exactly_once", outputs=tables, partitions=partitions) as run,
        ExitStack() as held,
    ):
        cluster, topic, weather = bench.cluster, run.job.input, f"{run.job.group}.reports"
        cluster.create({weather: partitions})
        times = _happened(flights.moved(delivery), 0)
        cluster.fill(topic, islice(moves, first), times)
        held.enter_context(cluster.held_back(topic, moves, times))
        # A report precedes the departures of its minute.
        cluster.fill(weather, early, _happened(iter(early), 1))
        told = {"TOPOLOGY": run.job.group, "WEATHER": weather, "TABLES": ",".join(tables)}
        if delivery.loses:
            told["SKIP"] = str(SKIP)
        run.start(who.command(), who.name.replace(" ", "-"), **told, **who.environment)
        run.until(run.has_output, "no output")
        run.ready(who.cores)
        before = run.look()
        # Not in a transaction: as long as one is open, nobody knows that a report has settled.
        cluster.fill(weather, late, _happened(iter(late), 1))
        held.close()
        rest = len(flights.moves) - first
        timing = run.watch_input(rest, SKIP if delivery.loses else SETTLE, before)
        run.stop()
        found = {"rate": timing.rate, "cpu": timing.cpu}
        for table, topic in zip(tables, run.outputs, strict=True):
            got = table_of(read(bench.cluster.broker, topic))
            found |= compared(table, right[table], got, missing=who in OURS)
        told_again = [name for name in bench.cluster.named(run.job.group) if "changelog" in name]
        size = sum(
            len(record.key() or b"") + len(record.value() or b"")
            for name in told_again
            for record in read(bench.cluster.broker, name)
        )
        found["changelog"] = size / len(flights.moves)
    return found


def compared(table: str, right: Table, got: Table, *, missing: bool) -> dict[str, float]:
    """How many rows are wrong, also in per cent. missing: also where what is missing is."""
    rows = wrong(right.rows, got.rows)
    if missing:
        rows += wrong(right.missing, got.missing)
    return {f"{table}_rows": rows, table: 100 * rows / len(right.rows)}


def _wrong(name: str) -> Scenario:
    delivery = DELIVERIES[name]

    def run(bench: Bench) -> Iterator[Sample]:
        for who in ALL:
            if who.missing() is None:
                yield sample(who.name, partial(measure, bench, who, delivery, who.tables))

    return Scenario(
        name,
        f"Rows that are wrong, per cent: {delivery.title}",
        delivery.how,
        (
            Column("departures by aircraft and day", "aircraft_day", 2),
            Column("mean delay by airport and hour", "airport_hour", 2),
            Column("weather at departure", "flown", 2),
        ),
        run,
        {who.name: who.title for who in ALL},
    )


def _cost(table: str, title: str) -> Scenario:
    delivery = DELIVERIES[_COSTS]

    def run(bench: Bench) -> Iterator[Sample]:
        for who in (*COSTED, *ON_TWO):
            if who.missing() is None and table in who.tables:
                yield sample(who.name, partial(measure, bench, who, delivery, (table,)))

    return Scenario(
        table,
        f"What it costs: {title}",
        f"This table alone, {delivery.title}. With two threads or processes topics have"
        f" {PARTITIONS} partitions, as many in a re-key.",
        (
            Column("events/s", "rate"),
            Column("CPU s per million", "cpu", 1),
            Column("changelog bytes an event", "changelog"),
            Column("rows that are wrong, per cent", table, 2),
        ),
        run,
        {who.name: who.title for who in (*COSTED, *ON_TWO)},
    )


def _live(bench: Bench) -> Iterator[Sample]:
    flights = STAGE.of(bench.events)
    for who in ALL[:2]:
        for table in who.tables[:2]:
            messages = flights.moved(DELIVERIES["in order"])
            if who.missing() is None:
                yield sample(who.name, partial(latencies, bench, who, table, messages))


LIVE = Scenario(
    "live",
    f"From sending to a reader of the table, ms, at {RATE:,} movements/s",
    "Movements arrive in order. The airports' table is behind a re-key, which is a hop; the"
    " difference is what it costs.",
    tuple(
        Column(f"{title}, {which}", f"{table}_{which}")
        for table, title in (("aircraft_day", "aircraft"), ("airport_hour", "airports"))
        for which in ("p50", "p99")
    ),
    _live,
    {who.name: who.title for who in ALL[:2]},
)
_WHOLE = ("demo", "lost")
"""The deliveries that are made without a broker."""


def _arrived(bench: Bench) -> Iterator[Sample]:
    if bench.turn:
        return  # all repeats are the same
    for name, backlog in product(_WHOLE, (False, True)):

        def make(name: str = name, backlog: bool = backlog) -> dict[str, float]:
            delivery = DELIVERIES[name]
            flights, right = STAGE.of(bench.events), STAGE.expected(bench.events, delivery)
            began = time.process_time()
            made = in_process(flights, delivery, backlog=backlog)
            found = {"cpu": time.process_time() - began}
            for table, got in made.items():
                found |= compared(table, right[table], got, missing=True)
                found[f"{table}_of"] = len(right[table].rows)
            arrived = flights.moves_that_arrive(delivery)["index"].nunique()
            found["lost"] = len(flights.moves) - arrived
            found["missing"] = sum(made["aircraft_day"].missing.values())
            return found

        yield sample(f"{name}{' backlog' * backlog}", make)


IN_PROCESS = Scenario(
    "in-process",
    "Without a broker: rows that are wrong, of how many",
    "All movements and reports arrive in a test driver, which runs the engine that workers run, at"
    " the times of the demo's network, once, as each run is the same. What is missing is counted in"
    " the rows by aircraft and day, and is compared row by row, as values are; a movement that is"
    " lost after the last one of its aircraft is missing nowhere, as nobody can know of it.",
    (
        *(
            Column(f"{title}{of}", f"{table}_{value}")
            for table, title in (
                ("aircraft_day", "by aircraft and day"),
                ("airport_hour", "by airport and hour"),
                ("flown", "weather"),
            )
            for of, value in (("", "rows"), (", of", "of"))
        ),
        Column("movements lost", "lost"),
        Column("missing", "missing"),
        Column("CPU s", "cpu"),
    ),
    _arrived,
    {
        f"{name}{' backlog' * backlog}": DELIVERIES[name].title
        + ("; all reports are read before the first movement" if backlog else "")
        for name, backlog in product(_WHOLE, (False, True))
    },
)
_TITLES = ("departures by aircraft and day", "mean delay by airport and hour", "the weather")
SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        *map(_wrong, DELIVERIES),
        *map(_cost, TABLES, _TITLES),
        LIVE,
        IN_PROCESS,
    )
}
_FULL = 200_000
"""Movements of a run that counts."""
GOALS = (
    *(
        Goal(
            f"rows of {title} that are wrong: {delivery.title}",
            name,
            figure(SEQUITUR.name, f"{table}_rows"),
            1,
            at_least=False,
            digits=0,
            full=_FULL,
        )
        for name, delivery in DELIVERIES.items()
        for table, title in zip(TABLES, _TITLES, strict=True)
    ),
    *(
        Goal(
            f"rows of {title} that are wrong without a broker: {how}",
            IN_PROCESS.name,
            figure(subject, f"{table}_rows"),
            1,
            at_least=False,
            digits=0,
        )
        for subject, how in IN_PROCESS.subjects.items()
        for table, title in zip(TABLES, _TITLES, strict=True)
    ),
    *(
        Goal(
            f"{title}{how}: events/s × {who.title}",
            table,
            ratio(ours.name, who.name, "rate"),
            1,
            full=_FULL,
        )
        for ours, others, how in (
            (SEQUITUR, COSTED[1:3], ""),
            (SEQUITUR_2, (COSTED[2], KAFKA_STREAMS_2), ", `--processes 2`"),
        )
        for table, title in zip(TABLES, _TITLES, strict=True)
        for who in others
    ),
)
