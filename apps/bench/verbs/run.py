"""`scripts/bench verbs`: run the scenarios, show the figures, write the page."""

import shutil
from contextlib import ExitStack

from rich.console import Console

from bench import machine, report
from bench.bench import SETTLE, Bench
from bench.cluster import Cluster
from bench.engine import broker_of, measure, problems
from bench.options import Options
from bench.peers import kafka_streams, quix
from bench.results import Result, load, save
from bench.verbs.contestants import ALL
from bench.verbs.scenarios import FIRST, GOALS, SCENARIOS


def run(options: Options, console: Console) -> int:
    """Measure; return the exit status: 1 where a sample is void. Raises LocalError."""
    if options.install:
        console.print("Installing Kafka Streams and Quix Streams …")
        kafka_streams.VERBS.install()
        quix.install()
    for who in ALL:
        if (absent := who.missing()) is not None:
            console.print(f"Left out: {who.name}, {absent}. Remedy: scripts/bench verbs --install")
    for leftover in (options.folder / "data", options.folder / "logs"):
        shutil.rmtree(leftover, ignore_errors=True)
    kept = options.samples
    results = load(kept, machine.facts())
    measured: dict[str, Result] = {}

    def keep(result: Result) -> None:
        """What takes long may be stopped: the page has what was measured until then."""
        results[result.scenario] = result
        save(kept, results.values())
        options.page.parent.mkdir(parents=True, exist_ok=True)
        options.page.write_text(report.page(SCENARIOS.values(), results, GOALS, _HEAD, _TAIL))

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


_HEAD = f"""\
# Benchmarks of verbs

`scripts/bench verbs` writes this page. It measures [verbs](verbs.md) beside those of Kafka Streams
and Quix Streams, in turn, on one broker. `--install` installs these first; `--help` shows all
options.

All read the same two topics, of one partition where nothing else is said: the movements of the
flights of 2013, keyed by aircraft, and the hourly weather at New York's airports, keyed by airport.
They make three tables: departures by aircraft and day, the mean delay of departures by airport and
hour (after a re-key), and the weather at each departure, which is the latest report at or before
it. A row is wrong where it is not what pandas makes of the same year by `groupby` and `merge_asof`,
or missing, or should not be there. Records are stamped with the events' own times, reports a
millisecond early, so that they precede the departures of their minute. A dash: not measured.

Everybody is counted alike. The first {FIRST:,} movements, at most a quarter of all, and the
reports up to them are there before a contestant starts; when it has put out what comes of them, and
was left {SETTLE:.0f} s to settle, the others come at once. The rate is that of these movements,
from their release to the last change of the output, and CPU is that of the contestant meanwhile."""
_TAIL = """\
## The peers

Their programs are `Verbs.java` and `quix_verbs.py` in `apps/bench/peers`. What is not said here is
as each has it by default. All commit exactly once, linger 20 ms, with one thread or process where
nothing else is said.

- *Kafka Streams*: windows with grace, cached stores of 64 MB, `max.task.idle.ms` 60,000 so that a
  join waits for its other side as long as it takes, 5,000 records a poll, batches of 256 KB. A
  versioned table keeps 30 days; a join with grace holds departures back for that long.
- *Quix Streams*: windows with grace that tell every change and end by the time of their own key,
  `join_asof` with 30 days of reports, whatever the windows' grace; commit interval 1 s.
- This is the best case for both. With more partitions, a re-key lets one run ahead of another, and
  what is late then has nothing to do with the network. And all input comes at once, so that
  both merge the two topics by time: a report that is late for the departures, but not for the
  reports around it, is still found, which it would not be live.
"""
