"""`scripts/bench engine`: run scenarios over the contestants, show the figures, write the page."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from bench import machine, report
from bench.bench import Bench, sample
from bench.cluster import Cluster
from bench.options import Options
from bench.peers import flink, kafka_streams
from bench.peers.peer import Peer
from bench.peers.registry import PEERS, SEQUITUR
from bench.results import Result, Sample, load, save
from bench.scenarios import (
    flights,
    grid,
    latency,
    memory,
    recovery,
    throughput,
    upsert,
    views,
    waiting,
)
from bench.scenarios.scenario import Scenario
from sequitur.local.broker import Broker

SCENARIOS = {
    module.SCENARIO.name: module.SCENARIO
    for module in (
        throughput,
        grid,
        flights,
        waiting,
        upsert,
        views,
        memory,
        recovery,
        latency,
    )
}
REMEDY = "Remedy: scripts/bench engine --install"


def run(options: Options, console: Console) -> int:
    """Measure; return the exit status: 1 where a sample is void. Raises LocalError."""
    chosen = [PEERS[name] for name in options.peers]
    if options.install:
        _install(chosen, console)
    ready = {peer.name: peer for peer in chosen if peer.missing() is None}
    absent = [peer.name for peer in chosen if peer.name not in ready]
    for name in absent:
        console.print(f"Left out: {name}, {PEERS[name].missing()}. {REMEDY}")
    for leftover in (options.folder / "data", options.folder / "logs"):
        shutil.rmtree(leftover, ignore_errors=True)
    kept = options.samples
    results = load(kept, machine.facts())
    measured: dict[str, Result] = {}
    with ExitStack() as stack:
        address = stack.enter_context(broker_of(options, console))
        bench = Bench(
            Cluster(address), options.folder, options.events, ready, results, options.rate
        )
        stack.callback(bench.forget)
        console.print("Warming up: a run that does not count …")
        sample("warm-up", lambda: throughput.measure(bench, SEQUITUR, "exactly_once"))
        for name in options.scenarios:
            scenario = SCENARIOS[name]
            result = measure(
                scenario, bench, options.repeats, console,
                lambda so_far: save(kept, (results | {so_far.scenario: so_far}).values()),
            )  # fmt: skip
            if scenario.subjects:
                known = (name for name in PEERS if name not in ready)
                result.facts["absent"] = ", ".join(n for n in known if n in scenario.subjects)
            measured[name] = results[name] = result
            save(kept, results.values())
            console.print(report.grid(scenario, result).rich(scenario.title))
    console.print(report.goals(results).rich("Goals"))
    options.page.parent.mkdir(parents=True, exist_ok=True)
    options.page.write_text(report.page(SCENARIOS.values(), results))
    console.print(f"Written: {options.page}; logs: {options.folder / 'logs'}")
    return problems(measured, console)


@contextmanager
def broker_of(options: Options, console: Console) -> Iterator[str]:
    """The address of the chosen broker, else of one whose records are gone afterwards."""
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    if options.broker is not None:
        yield options.broker
        return
    console.print("Starting a broker …")
    for leftover in folder.glob("broker-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with (
        TemporaryDirectory(dir=folder, prefix="broker-", ignore_cleanup_errors=True) as records,
        Broker(Path(records)) as broker,
    ):
        yield broker.address


def _install(peers: Sequence[Peer], console: Console) -> None:
    for peer in peers:
        if peer.missing() is not None:
            console.print(f"Installing {peer.name} …")
            peer.install()


def measure(
    scenario: Scenario,
    bench: Bench,
    repeats: int,
    console: Console,
    keep: Callable[[Result], None] = lambda result: None,
) -> Result:
    """The samples of all repeats of a scenario, shown as they come.

    keep: called behind each sample, with those so far.
    """
    console.print(f"\n{scenario.title}")
    facts = machine.facts() | {
        "Kafka Streams": kafka_streams.VERSION,
        "Flink": flink.VERSION,
        "events": str(bench.events),
        "repeats": str(repeats),
        "load before": machine.load(),
    }
    result = Result(scenario.name, facts)
    for bench.turn in range(repeats):
        for taken in scenario.run(bench):
            result.samples.append(taken)
            facts["load after"] = machine.load()
            keep(result)
            console.print(f"  {bench.turn + 1}/{repeats}  {_line(taken)}", soft_wrap=True)
    return result


def _line(taken: Sample) -> str:
    if taken.problem:
        return f"{taken.subject}: {taken.problem}"
    shown = (f"{name} {report.number(value, 1)}" for name, value in taken.values.items())
    return f"{taken.subject}: {', '.join(shown)}"


def problems(measured: Mapping[str, Result], console: Console) -> int:
    """Show what made samples void; return the exit status."""
    found = [f"{name}: {text}" for name, result in measured.items() for text in result.problems()]
    if found:
        console.print("\nVoid samples:")
        for text in found:
            console.print(f"  {text}", markup=False)
    return 1 if found else 0
