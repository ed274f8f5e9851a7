"""A topology live on Spark, beside a Faust worker that runs the same one."""

import sys
from collections.abc import Callable, Iterator, Sequence

from bench.bench import FULL, Bench, Run, sample
from bench.goals import Goal
from bench.programs import worker
from bench.results import Sample
from bench.scenarios.latency import figures, in_order, read
from bench.scenarios.scenario import Column, Scenario
from bench.workload import Workload

STREAMS = 5000
RATE = 200
"""Events a second, for the latency."""
SECONDS = 30.0
BATCHES = 10
"""Into which Spark cuts the workload, about."""
TOPOLOGY = "bench.topologies.views"
SUBJECTS = ("spark", "faust")


def run(bench: Bench) -> Iterator[Sample]:
    """Both runtimes: the workload as fast as it goes, then a stretch at a steady rate."""
    for subject in SUBJECTS:

        def measure(subject: str = subject) -> dict[str, float]:
            return _throughput(bench, subject) | _latency(bench, subject)

        yield sample(subject, measure)


def _throughput(bench: Bench, subject: str) -> dict[str, float]:
    work = Workload(bench.events, STREAMS)
    with bench.run("exactly_once") as run:
        run.read(bench.topic(work))
        _start(run, subject, max(1, bench.events // BATCHES))
        timing = run.watch(work.events)
        run.stop()
        run.audit(work.ends)
    return {"rate": timing.rate}


def _latency(bench: Bench, subject: str) -> dict[str, float]:
    seconds = max(10.0, SECONDS * min(1.0, bench.events / FULL))
    total = int(RATE * seconds)
    with bench.run("exactly_once") as run:
        job = run.job
        bench.cluster.stamp_on_append(job.input)
        _start(run, subject, 50_000)
        # Started and warm is whoever has written an event: one of a stream that is not measured.
        bench.cluster.fill(job.input, [(b"-1", b'{"stream":-1,"seq":1,"at":0}')])
        run.until(lambda: _written(run) > 0, "nothing is written")
        arguments = (job.broker, job.input, RATE, seconds, STREAMS)
        sender = run.start([sys.executable, "-m", "bench.sender", *map(str, arguments)], "sender")
        run.programs.remove(sender)
        try:
            seen = {event: now for event, _, now in in_order(run, total + 1) if event[0] >= 0}
        finally:
            sender.kill()
        run.stop()
        appended = {
            event: (sent, at)
            for event, sent, at, _ in read(run, job.input, total + 1)
            if event[0] >= 0
        }
    found = figures(seen, appended)
    return {"p50": found["p50"], "p99": found["p99"]}


def _start(run: Run, subject: str, size: int) -> None:
    """Start the runtime on the run's topics. size: of Spark's batches."""
    commands: dict[str, Callable[[], Sequence[str]]] = {
        "faust": lambda: worker(TOPOLOGY),
        "spark": lambda: [
            *(sys.executable, "-m", "sequitur", "live", "--topology", f"{TOPOLOGY}:topology"),
            *("--broker", run.job.broker, "--checkpoint", str(run.job.datadir / "checkpoint")),
            *("--max-records-per-trigger", str(size), "--trigger-interval", "100ms"),
        ],
    }
    names = {"TOPOLOGY": run.job.group, "OUTPUTS": run.job.output}
    run.start(commands[subject](), subject, **names)


def _written(run: Run) -> int:
    job = run.job
    return sum(run.cluster.ends([(job.output, p) for p in range(job.partitions)]).values())


SCENARIO = Scenario(
    "live",
    "A topology live: events a second, and from append to a reader of the committed output, ms",
    "One keyed source of 5,000 streams, one view that passes events on; 10% late, 5% twice. Spark"
    " runs it as one query on all cores, in ten batches and a bit; the Faust worker is one process."
    " Outputs are read and audited: each stream's events once and in sequence. Latency at 200"
    " events/s, with a batch every 100 ms at most on Spark.",
    (
        Column("events/s", "rate"),
        Column("× Faust", "rate", 2, "faust"),
        Column("p50, ms", "p50"),
        Column("p99, ms", "p99"),
    ),
    run,
    {"spark": "live on Spark", "faust": "a Faust worker"},
)

GOALS: tuple[Goal, ...] = ()
