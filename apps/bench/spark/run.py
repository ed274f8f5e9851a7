"""`scripts/bench spark`: run the scenarios, show the figures, write the page."""

import shutil
from contextlib import ExitStack

from rich.console import Console

from bench import machine, report
from bench.bench import Bench
from bench.cluster import Cluster
from bench.engine import broker_of, measure, problems
from bench.options import Options
from bench.results import Result, load, save
from bench.spark import stores
from bench.spark.registry import GOALS, SCENARIOS

_HEAD = """\
# Benchmarks of materializing and Spark

`scripts/bench spark` writes the tables of this page, from the samples in
[benchmarks-spark.json](benchmarks-spark.json). It measures the jobs that run on Spark, in turn, on
one broker. `--install` installs PostgreSQL's JDBC driver first; `--help` shows all options.
The broker, the stores and Spark share the cores of one machine.
[Materializing](materializing.md) explains the sinks."""


def run(options: Options, console: Console) -> int:
    """Measure; return the exit status: 1 where a sample is void. Raises LocalError."""
    if options.install and stores.missing():
        console.print("Installing PostgreSQL's JDBC driver …")
        stores.install()
    if absent := stores.missing():
        console.print(f"Left out: JDBC append, {absent}. Remedy: scripts/bench spark --install")
    for leftover in (options.folder / "data", options.folder / "logs"):
        shutil.rmtree(leftover, ignore_errors=True)
    kept = options.samples
    results = load(kept, machine.facts())
    measured: dict[str, Result] = {}

    def keep(result: Result) -> None:
        """What takes long may be stopped: the page has what was measured until then."""
        result.facts |= machine.facts(spark=True)
        results[result.scenario] = result
        save(kept, results.values())
        options.page.parent.mkdir(parents=True, exist_ok=True)
        options.page.write_text(report.page(SCENARIOS.values(), results, GOALS, _HEAD, ""))

    with ExitStack() as stack:
        address = stack.enter_context(broker_of(options, console))
        bench = Bench(Cluster(address), options.folder, options.events, {}, results)
        stack.callback(bench.forget)
        for name in options.scenarios:
            scenario = SCENARIOS[name]
            result = measured[name] = measure(scenario, bench, options.repeats, console, keep)
            console.print(report.grid(scenario, result).rich(scenario.title))
    console.print(report.goals(results, GOALS).rich("Goals"))
    console.print(f"Written: {options.page}; logs: {options.folder / 'logs'}")
    return problems(measured, console)
