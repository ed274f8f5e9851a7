"""The flights through re-keying and three views with handlers, beside Kafka Streams and Flink."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from threading import Thread

from bench.bench import Bench, Run, Wrong, sample
from bench.flight_rows import VIEWS, FlightsWorkload, problem
from bench.peers import flink, kafka_streams
from bench.peers.java import JavaPeer
from bench.peers.registry import FLINK, KAFKA_STREAMS, SEQUITUR
from bench.programs import worker
from bench.results import Result, Sample
from bench.scenarios.scenario import Column, Scenario, in_turn
from bench.workload import Message
from soak.check import read

SHAPES = ("a backlog", "live")
FIRST = 200
"""Movements that are sent at a time; and of the live ones, before all others."""
RATE = 5_000
"""Live movements a second, unless told otherwise."""
OURS = "a backlog: Sequitur"
OURS_ON_TWO = "a backlog: Sequitur, `--processes 2`"


@dataclass(frozen=True, slots=True)
class Contestant:
    """name: of the peer that has to be chosen. settings: of its environment. options: of our
    worker's command. two: whether it has two processes, threads or slots. live: whether it is
    measured on the live shape too."""

    name: str
    program: JavaPeer | None = None
    settings: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    two: bool = False
    live: bool = False

    def command(self) -> list[str]:
        """The command of its program, which is compiled where it is not yet."""
        if self.program is None:
            return [*worker("bench.topologies.flights"), *self.options]
        if self.program.missing() is not None:
            self.program.install()
        return self.program.command()


CONTESTANTS = {
    "Sequitur": Contestant(SEQUITUR.name, live=True),
    "Sequitur, `--processes 2`": Contestant(
        SEQUITUR.name, options=("--processes", "2"), two=True, live=True
    ),
    "Kafka Streams": Contestant(KAFKA_STREAMS.name, kafka_streams.FLIGHTS, live=True),
    "Kafka Streams, caches of 64 MB": Contestant(
        KAFKA_STREAMS.name, kafka_streams.FLIGHTS, {"CACHE": str(64 << 20)}
    ),
    "Kafka Streams, two threads": Contestant(
        KAFKA_STREAMS.name, kafka_streams.FLIGHTS, {"THREADS": "2"}, two=True
    ),
    "Flink, 500 ms": Contestant(FLINK.name, flink.FLIGHTS, {"CHECKPOINT": "500"}, live=True),
    "Flink, 100 ms": Contestant(FLINK.name, flink.FLIGHTS, {"CHECKPOINT": "100"}),
    "Flink, two slots, 500 ms": Contestant(
        FLINK.name, flink.FLIGHTS, {"CHECKPOINT": "500", "SLOTS": "2"}, two=True
    ),
}
"""Who does it, in which set-up."""


def run(bench: Bench) -> Iterator[Sample]:
    """Each contestant on each shape."""
    for shape in SHAPES:
        for title, contestant in in_turn(CONTESTANTS.items(), bench.turn):
            if contestant.name in bench.peers and (contestant.live or shape == SHAPES[0]):
                subject = f"{shape}: {title}"
                yield sample(subject, lambda s=shape, c=contestant: measure(bench, s, c))  # type: ignore[misc]


def measure(bench: Bench, shape: str, contestant: Contestant) -> dict[str, float]:
    """One run over all movements, exactly once, from the start of the program to the last row."""
    work, backlog = workload(bench.events), shape == SHAPES[0]
    with bench.run("exactly_once", outputs=VIEWS) as run:
        if backlog:
            run.read(bench.topic(work, times=work.times))
        more = {"TOPOLOGY": run.job.group, **contestant.settings}
        command = contestant.command()
        run.start(command, contestant.name, **more)
        if not backlog:
            live(run, work.messages, bench.rate or RATE)
        timing = run.watch(work.outputs)
        cpu = run.cpu()
        run.stop()
        for view, output in zip(VIEWS, run.outputs, strict=True):
            values = (record.value() or b"" for record in read(bench.cluster.broker, output))
            if told := problem(values, work.rows[view]):
                raise Wrong(f"{view}: {told}")
    return {"rate": work.events / timing.all, "cpu": 1e6 * cpu / work.events}


def live(run: Run, messages: Iterator[Message], rate: int) -> None:
    """Send a few movements and wait for a row of them, then send the others, beside."""
    fill = run.cluster.fill
    fill(run.job.input, islice(messages, FIRST))
    run.until(run.has_output, "no row")
    Thread(target=fill, args=(run.job.input, paced(messages, rate)), daemon=True).start()


def paced(messages: Iterator[Message], rate: int) -> Iterator[Message]:
    """The messages, so many a second."""
    began = time.monotonic()
    for number, message in enumerate(messages):
        if not number % FIRST:
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
        yield message


@lru_cache(maxsize=1)
def workload(events: int) -> FlightsWorkload:
    """The movements, which are computed once."""
    return FlightsWorkload(events)


def by_the_better(result: Result, title: str, ours: str = OURS) -> float | None:
    """Our rate with a backlog, by the best of the set-ups of another, None where neither is
    measured. One process is held against one thread or slot, two against any."""
    found = [
        rate.median
        for name, each in CONTESTANTS.items()
        if name.startswith(title) and (ours == OURS_ON_TWO or not each.two)
        if (rate := result.figure(f"{SHAPES[0]}: {name}", "rate"))
    ]
    rate = result.figure(ours, "rate")
    return rate.median / max(found) if rate and found else None


SCENARIO = Scenario(
    "flights",
    "The flights through re-keying and three views with handlers, exactly once",
    "Movements of the year 2013 as their network delivers them, some late and 3% twice, keyed by"
    " the ground station that heard them; so an aircraft's are in any partition. Each program"
    " re-keys them by aircraft, puts them in sequence in three views with states of their own, and"
    " writes the same rows: Kafka Streams by a repartition topic, three processors, and Jackson;"
    " Flink by `keyBy`, which needs no topic, and three functions with state on the heap. A backlog"
    f" is there before a program starts; live, {RATE:,} movements a second come while it runs, so"
    " only the CPU is of interest. Rate and CPU are from the start of the program to its last row:"
    " what it re-keys before its first row counts too, and so does its start, which counts for less"
    " the more movements there are. Every row of every output is compared with what it has to be."
    " One process is held against one thread or slot, two against any.",
    (
        Column("movements/s", "rate"),
        Column("CPU s per million", "cpu", 1),
    ),
    run,
)
