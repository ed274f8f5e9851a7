"""Three views over one source beside one: what is shared should cost once."""

from collections.abc import Iterator

from bench.bench import Bench, sample
from bench.programs import worker
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario

ONE, THREE = "one view", "three views"


def run(bench: Bench) -> Iterator[Sample]:
    """One view, then three."""
    yield sample(ONE, lambda: measure(bench, 1))
    yield sample(THREE, lambda: measure(bench, 3))


def measure(bench: Bench, views: int) -> dict[str, float]:
    """One run over the whole workload; `seconds` for all its events in all views."""
    work = bench.workload
    with bench.run("exactly_once", outputs=[f"out{number}" for number in range(views)]) as run:
        run.read(bench.topic(work))
        outputs = ",".join(run.outputs)
        command = worker("bench.topologies.views")
        run.start(command, "views", TOPOLOGY=run.job.group, OUTPUTS=outputs)
        timing = run.watch(work.events * views)
        run.stop()
        run.audit(work.ends)
    return {
        "seconds": work.events * views / timing.rate,
        "rate": timing.rate,
        "cpu": timing.cpu * views,
    }


SCENARIO = Scenario(
    "views",
    "Views over one source, identity handlers, exactly once",
    "Each view writes every event to a topic of its own. Seconds are those for the whole workload"
    " at the steady rate.",
    (
        Column("seconds", "seconds", 2),
        Column("× one view", "seconds", 2, base=ONE),
        Column("outputs/s", "rate"),
        Column("CPU s per million events", "cpu", 1),
    ),
    run,
)
