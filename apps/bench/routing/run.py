"""Run the bench of routing: each row on one broker, beside a plain loop; write the page."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from uuid import uuid4

from rich.console import Console

from bench import machine
from bench.cluster import Cluster
from bench.engine import broker_of
from bench.options import Options
from bench.programs import Program, start, worker
from bench.report import Grid, machine_grid, number
from bench.routing.units import units_per_second
from bench.routing.work import PARTITIONS, messages
from bench.timing import Timing, watch
from checkout.rabbitmq import RabbitMQ
from soak_segments.media import KafkaMedium, Medium, RabbitMedium

RULES, PROCESSES, UNITS = (0, 1, 3, 10), (1, 2, 4), (1, 50, 100, 1_000)
"""0 rules: the plain loop."""
GOAL = 35_000
"""Messages per second through three rules on one core."""


def run(options: Options, console: Console) -> int:
    """Returns the exit status."""
    with broker_of(options, console) as address:
        return _run(options, address, console)


def _run(options: Options, broker: str, console: Console) -> int:
    before, routed = machine.load(), dict[tuple[int, int], Timing]()
    console.print("Warming up: runs that do not count …")
    for rules in (0, 3):
        _routed(options, broker, rules, 1)
    for rules, processes in ((rules, each) for each in PROCESSES for rules in RULES):
        runs = [_routed(options, broker, rules, processes) for _ in range(options.repeats)]
        runs.sort(key=lambda each: each.rate)
        found = routed[rules, processes] = runs[len(runs) // 2]
        console.print(f"{_name(rules)}, {processes} processes: {found.rate:,.0f}/s")
    with RabbitMQ() as rabbit:
        media: dict[str, Medium] = {
            "kafka": KafkaMedium(options.folder, {"kafka": broker}),
            "rabbitmq": RabbitMedium(options.folder, {"rabbitmq": rabbit.url}),
        }
        units = {name: [_units(options, media, name, size) for size in UNITS] for name in media}
    three, plain = routed[3, 1], routed[0, 1]
    goals = [_goal("three rules, one process, messages/s", three.rate, GOAL),
             _goal("the same, by the plain loop", three.rate / plain.rate, 0.5),
             *(_goal(f"units of one into {name}, units/s", found[0], 100)
               for name, found in units.items())]  # fmt: skip
    rates = [[_name(rules), *(number(routed[rules, each].rate, 0) for each in PROCESSES),
              number(1e6 / routed[rules, 1].cpu, 0)] for rules in RULES]  # fmt: skip
    facts = machine.facts() | {
        "messages of a row, repeats": f"{options.events:,}, {options.repeats}",
        "load average before and after": f"{before}, {machine.load()}",
    }
    grids = {
        "Goals": Grid(["goal", "bound", "measured", ""], goals),
        "Messages per second": Grid(
            ["processes", *map(str, PROCESSES), "1, per second of its CPU time"], rates
        ),
        "Units per second": Grid(
            ["messages of a unit", *(f"{each:,}" for each in UNITS)],
            [[f"into {name}", *(number(each, 0) for each in some)] for name, some in units.items()],
        ),
        "Where": machine_grid(facts),
    }
    for title, grid in grids.items():
        console.print(grid.rich(title))
    parts = [f"## {title}\n\n{grid.markdown()}" for title, grid in grids.items()]
    options.page.write_text("\n\n".join([_HEAD, *parts]) + "\n")
    console.print(f"written: {options.page}")
    return 0


def _name(rules: int) -> str:
    return f"{rules} rule{'s' * (rules > 1)}" if rules else "the plain loop"


def _goal(what: str, figure: float, least: float) -> list[str]:
    digits = 0 if least > 1 else 2
    met = "met" if figure >= least else "not met"
    return [what, f"at least {number(least, digits)}", number(figure, digits), met]


def _routed(options: Options, broker: str, rules: int, processes: int) -> Timing:
    cluster, prefix = Cluster(broker), f"routing-{uuid4().hex[:8]}"
    cluster.create({f"{prefix}.in": PARTITIONS, f"{prefix}.out": PARTITIONS})
    command = worker("bench.topologies.routing")
    if not rules:
        command = [sys.executable, "-m", "bench.routing.work"]
    running: list[Program] = []

    def check() -> None:
        for each in running:
            each.check()

    with tempfile.TemporaryDirectory(dir=options.folder, ignore_cleanup_errors=True) as data:
        try:
            with cluster.held_back(f"{prefix}.in", messages(options.events)):
                for each in range(processes):
                    told = {"ROUTING": f"{prefix} {rules} {broker} {data}/{each}"}
                    running.append(start(prefix, command, options.folder / f"{prefix}.log", told))
                while cluster.members(prefix) < processes:
                    check()
                    time.sleep(0.2)
                time.sleep(3)
            out = [(f"{prefix}.out", each) for each in range(PARTITIONS)]
            return watch(cluster, out, options.events, lambda: sum(p.cpu for p in running), check)
        finally:
            for program in running:
                program.stop()
            cluster.delete(prefix)


def _units(options: Options, media: Mapping[str, Medium], into: str, size: int) -> float:
    found, count = [], max(10, min(1_000, options.events // (2 * size)))
    tables = {name: each.table for name, each in media.items()}
    cluster = Cluster(tables["kafka"]["broker"])
    for _ in range(options.repeats):
        prefix = f"units-{uuid4().hex[:8]}"
        cluster.create({f"{prefix}.in": 1})
        cluster.fill(f"{prefix}.in", messages(size * count))
        media[into].make([f"{prefix}.out"])
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            work = units_per_second(tables, into, prefix, size, count, Path(folder))
            found.append(asyncio.run(work))
        cluster.delete(prefix)
    return median(found)


_HEAD = """\
# Benchmarks of routing

`scripts/bench routing` writes this page. A message has 2 KB of JSON. It passes all the rules in
turn and goes to one topic of Kafka, by `Topology.route` in workers, exactly once. The plain loop
is an aiokafka consumer and producer that copy each batch in a transaction. Units of work pass
three rules, and segments in files with SQLite; consumer and publisher share a process, and every
step is synced. The broker has the same cores as what is measured, and so has whatever else the
machine does: the load average says how far these figures are too low."""
