"""Resident memory of a worker: streams that are idle, events that wait for their predecessors."""

import time
from collections.abc import Iterator

from bench.bench import SETTLE, Bench, Run, sample
from bench.job import Job
from bench.peers.registry import SEQUITUR
from bench.programs import Program
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario
from bench.workload import Message, rounds

IDLE, WAITING = "idle streams", "waiting events"
EACH = 20
"""Waiting events per stream."""


def run(bench: Bench) -> Iterator[Sample]:
    """Both, each with a worker of its own."""
    yield sample(IDLE, lambda: idle(bench))
    yield sample(WAITING, lambda: waiting(bench))


def idle(bench: Bench) -> dict[str, float]:
    """Streams that have had one event each."""
    streams = bench.scaled(1_000_000)
    with bench.run("exactly_once") as run:
        worker, empty = _filled(bench, run, rounds(streams, range(1, 2)))
        run.watch(streams)
        figures = _figures(worker, empty, streams)
        run.stop()
        run.audit({str(stream): 1 for stream in range(streams)})
    return figures


def waiting(bench: Bench) -> dict[str, float]:
    """Streams whose first event comes last; with it the rest has to come out as well."""
    events = bench.scaled(100_000)
    streams = events // EACH
    with bench.run("exactly_once") as run:
        job = run.job
        worker, empty = _filled(bench, run, rounds(streams, range(2, EACH + 2)))
        run.until(lambda: _lag(bench, job) == 0, "the input is not read")
        figures = _figures(worker, empty, streams * EACH)
        bench.cluster.fill(job.input, rounds(streams, range(1, 2)))
        run.watch(streams * (EACH + 1))
        run.stop()
        run.audit({str(stream): EACH + 1 for stream in range(streams)})
    return figures


def _lag(bench: Bench, job: Job) -> int | None:
    return bench.cluster.lag(job.group, job.input, job.partitions)


def _filled(bench: Bench, run: Run, messages: Iterator[Message]) -> tuple[Program, float]:
    """Let a worker become ready, take its memory, then let it have the messages."""
    with bench.cluster.held_back(run.job.input, messages):
        worker = run.start(SEQUITUR.command(), SEQUITUR.name)
        run.ready(1)
        return worker, worker.memory()[0]


def _figures(worker: Program, empty: float, count: int) -> dict[str, float]:
    time.sleep(SETTLE)
    now, peak = worker.memory()
    return {"count": count, "empty": empty, "now": now, "beyond": now - empty, "peak": peak - empty}


SCENARIO = Scenario(
    "memory",
    "Resident memory of a worker, MB of 10^6 bytes, exactly once",
    "`empty`: a worker that is ready and has had nothing. `with`: when all is read and it is quiet"
    " again. Idle streams have had one event each; of waiting events there are 20 in a stream"
    " whose first is missing, and it is verified that they all come out when it comes.",
    (
        Column("how many", "count"),
        Column("empty", "empty"),
        Column("with", "now"),
        Column("beyond empty", "beyond"),
        Column("peak beyond empty", "peak"),
    ),
    run,
)
