"""A worker that lost its folder rebuilds its tables from the changelog."""

import re
import shutil
import time
from collections.abc import Iterator
from datetime import datetime

from bench.bench import PARTITIONS, Bench, sample
from bench.programs import worker
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario
from bench.workload import rounds

SUBJECT = "changelog of one view"
# What a worker logs of each table: [2026-01-31 12:00:00,123] … restored x-changelog/0: 5 rows in …
_RESTORED = re.compile(
    r"^\[([\d-]+ [\d:,]+)\].* restored \S+: (\d+) rows in [\d.]+ s \((\d+) rows/s\)", re.MULTILINE
)


def run(bench: Bench) -> Iterator[Sample]:
    """One recovery."""
    yield sample(SUBJECT, lambda: measure(bench))


def measure(bench: Bench) -> dict[str, float]:
    """Fill the changelog with a row per stream; kill the worker, delete its folder, start it.

    Then every stream's first event comes again and its second for the first time, which shows
    whether what was restored is right.
    """
    streams = bench.events
    command = worker("passthrough", "info")
    with bench.run("exactly_once") as run:
        bench.cluster.fill(run.job.input, rounds(streams, range(1, 2)))
        first = run.start(command, "worker", SEQUITUR_INSTANCE="worker")
        run.watch(streams)
        run.kill(first)
        shutil.rmtree(run.job.datadir)
        began = time.monotonic()
        second = run.start(command, "worker", SEQUITUR_INSTANCE="worker")
        log = second.log
        run.until(
            lambda: len(_RESTORED.findall(log.read_text(errors="replace"))) == PARTITIONS,
            "the tables are not restored",
        )
        seconds = time.monotonic() - began
        bench.cluster.fill(run.job.input, rounds(streams, range(1, 3)))
        run.watch(2 * streams)
        run.stop()
        run.audit({str(stream): 2 for stream in range(streams)})
        rows, rate = restored(log.read_text(errors="replace"))
    return {"rows": rows, "rate": rate, "seconds": seconds}


def restored(log: str) -> tuple[int, float]:
    """A worker's log → (rows restored, rows a second from the first table's start to the end)."""
    total, starts, ends = 0, list[float](), list[float]()
    for told, rows, rate in _RESTORED.findall(log):
        end = datetime.strptime(told, "%Y-%m-%d %H:%M:%S,%f").timestamp()
        total += int(rows)
        ends.append(end)
        starts.append(end - int(rows) / max(1, int(rate)))
    return total, total / max(max(ends) - min(starts), 1e-9) if total else 0.0


SCENARIO = Scenario(
    "recovery",
    "Recovery from the changelog after SIGKILL and the loss of the folder",
    "Rows a second are from the first table's start to the last one's end, as the worker logs it;"
    " `to the end` is from the start of the process, so with Python's start, the group and the"
    " transactions in it. Afterwards new and repeated events verify the restored state.",
    (
        Column("rows", "rows"),
        Column("rows/s", "rate"),
        Column("to the end, s", "seconds", 1),
    ),
    run,
)
