"""Two workers beside one, on one machine."""

from collections.abc import Iterator

from bench.bench import Bench, sample
from bench.peers.registry import SEQUITUR
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario

ONE, TWO = "one worker", "two workers"


def run(bench: Bench) -> Iterator[Sample]:
    """One worker, then two."""
    yield sample(ONE, lambda: measure(bench, 1))
    yield sample(TWO, lambda: measure(bench, 2))


def measure(bench: Bench, workers: int) -> dict[str, float]:
    """The whole workload comes at once when all workers are ready and have their partitions."""
    work = bench.workload
    with bench.run("exactly_once") as run:
        with bench.cluster.held_back(run.job.input, work.messages):
            for number in range(workers):
                run.start(SEQUITUR.command(), f"worker{number}")
            run.ready(workers)
        timing = run.watch(work.events)
        run.stop()
        run.audit(work.ends)
    return {"rate": timing.rate, "cores": timing.rate * timing.cpu / 1e6}


SCENARIO = Scenario(
    "workers",
    "Two workers on one input of four partitions, exactly once",
    "The workers are ready before the whole input appears in one transaction. The broker runs on"
    " the same cores as the workers: `cores` says how many the workers alone kept busy, and what"
    " they leave is all that the broker has. So on a small machine the ratio shows the machine's"
    " limit, not the engine's.",
    (
        Column("events/s", "rate"),
        Column("× one worker", "rate", 2, base=ONE),
        Column("cores used by workers", "cores", 2),
    ),
    run,
)
