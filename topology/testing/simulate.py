"""Simulate a topology from the command line.

python -m topology.testing.simulate --topology shop.app:topology --seeds 0..5000
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from operator import attrgetter
from typing import Any

from topology.declaration.topology import Topology
from topology.model.errors import described
from topology.testing.simulation.messages import numbered
from topology.testing.simulation.simulator import Report, SimulationError, Simulator, trace_text
from topology.testing.simulation.world import Guarantee

CHUNK = 250
"""Seeds that a process runs at a time."""
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds, or replay one. Returns the exit status: 1 if a promise was broken, 2 if nothing
    could be simulated."""
    parser = argparse.ArgumentParser("topology.testing.simulate", description=__doc__)
    add = parser.add_argument
    add("--topology", required=True, metavar="MODULE:ATTR", help="the topology")
    add("--messages", metavar="MODULE:ATTR", help="a list of messages, or a function of a seed")
    add("--seeds", default="0..1000", type=_seeds, metavar="A..B", help="from A up to before B")
    add("--replay", type=int, metavar="SEED", help="run one seed and print each step")
    add("--guarantee", default="exactly_once", choices=["exactly_once", "at_least_once"])
    add("--workers", type=int, default=2)
    add("--partitions", type=int, default=2)
    add("--jobs", type=int, default=CORES, help="processes to run seeds in; default: %(default)s")
    chosen = parser.parse_args(arguments)
    options = (
        chosen.topology, chosen.messages, chosen.guarantee, chosen.workers, chosen.partitions,
    )  # fmt: skip
    try:
        if chosen.replay is not None:
            report = _simulator(*options).replay(chosen.replay)
            print(trace_text(report.trace))
        else:
            report = _run(options, chosen.seeds, chosen.jobs)
    except SimulationError as error:
        print(error)
        print(f"\nto see each step: --replay {error.seed}", file=sys.stderr)
        return 1
    except Exception as error:  # of what was given: a schedule's own are a SimulationError
        parser.print_usage(sys.stderr)
        print(described(error), file=sys.stderr)
        return 2
    print(report)
    if not report.handled:
        print("no handler got through: give --messages that they can handle", file=sys.stderr)
        return 2
    return 0


def _run(options: Any, seeds: range, jobs: int) -> Report:
    simulator = _simulator(*options)  # what is wrong with it shows here, not in a process
    jobs = min(jobs, 1 + (len(seeds) - 1) // CHUNK)
    if jobs <= 1:
        return simulator.run(seeds)
    began, total = time.perf_counter(), Report()
    parts = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    with ProcessPoolExecutor(jobs, initializer=_begin, initargs=options) as pool:
        for report in pool.map(_part, parts):
            total.add(report)
    total.seconds = time.perf_counter() - began
    return total


_mine: list[Simulator] = []


def _begin(*options: Any) -> None:
    _mine.append(_simulator(*options))


def _part(seeds: range) -> Report:
    report = _mine[0].run(seeds)
    report.trace = []
    return report


def _simulator(
    topology: str, messages: str | None, guarantee: Guarantee, workers: int, partitions: int
) -> Simulator:
    found = _found(topology)
    if not isinstance(found, Topology):
        raise TypeError(f"--topology {topology}: give a Topology")
    return Simulator(
        found,
        numbered(found) if messages is None else _found(messages),
        guarantee=guarantee,
        workers=workers,
        partitions=partitions,
    )


def _found(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return attrgetter(attribute)(import_module(module))


def _seeds(text: str) -> range:
    first, dots, last = text.partition("..")
    seeds = range(int(first), int(last) if dots else int(first) + 1)
    if not seeds:
        raise argparse.ArgumentTypeError("no seeds: write A..B with A below B")
    return seeds


if __name__ == "__main__":
    sys.path.insert(0, "")
    sys.exit(main())
