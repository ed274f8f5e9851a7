"""The read stores that are written while something is measured, and the programs that do it."""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.bench import Bench, Wrong
from bench.peers.java import JARS, PeerBundle
from bench.programs import start
from bench.timing import Stalled
from checkout.postgres import Postgres
from sequitur.demo.processes import ChildFailed
from sequitur.local import jars
from sequitur.local.ports import free_port
from sequitur.local.process import tail

JDBC = PeerBundle("postgresql-jdbc", ("org.postgresql:postgresql:42.7.8",), transitive=False)
PATIENCE = 1800.0
"""Seconds that one run may take."""


def missing() -> str | None:
    """What is not installed."""
    return None if jars.installed(JDBC, JARS) else "PostgreSQL's JDBC driver is not installed"


def install() -> None:
    """Fetch it. Raises LocalError."""
    jars.install(JDBC, JARS)


@contextmanager
def place(kind: str, folder: Path) -> Iterator[str]:
    """Where a writer of this kind is to write; gone afterwards.

    kind: sqlite, postgresql, delta, or the name of a writer that protects nothing.
    """
    folder = folder / f"store-{uuid4().hex[:8]}"
    folder.mkdir(parents=True)
    try:
        match kind:
            case "sqlite":
                yield f"sqlite:///{folder}/read.db"
            case "delta" | "delta driver" | "delta executors":
                yield f"delta:///{folder}/delta"
            case "delta append":
                yield f"{folder}/delta"
            case "jdbc append":
                port = free_port()
                with Postgres({"listen_addresses": "127.0.0.1", "port": str(port)}):
                    # Many rows in a statement, as all who are in a hurry have it.
                    more = "reWriteBatchedInserts=true"
                    yield f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=postgres&{more}"
            case _:
                with Postgres({}) as server:
                    yield server.url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


WRITERS = {
    "sqlite": "sink",
    "postgresql": "sink",
    "delta": "sink",
    "jdbc append": "jdbc",
    "delta append": "delta",
    "copy loop": "copy",
}
"""Subject → how `bench.spark.program` is to write; other subjects are called as it calls them."""


ON_CLUSTER = {
    "PostgreSQL, the driver alone": "driver",
    "PostgreSQL, by executors": "executors",
    "Delta Lake, the driver alone": "delta driver",
    "Delta Lake, by executors": "delta executors",
}
"""What is measured on a cluster → how a place is called, and how `bench.spark.program` writes."""


def measured(bench: Bench, subject: str, topic: str, records: int, size: int) -> dict[str, Any]:
    """Let a program write a topic's records in batches of `size`; what it says of them.

    Raises Wrong where not all records arrived, ChildFailed and Stalled where it did not end.
    """
    log = bench.folder / "logs" / f"spark-{subject.replace(' ', '-')}-{uuid4().hex[:6]}.log"
    with place(subject, bench.folder / "data") as where:
        arguments = (
            WRITERS.get(subject, subject.removeprefix("delta ")),
            where,
            bench.cluster.broker,
            topic,
            records,
            size,
        )
        command = [sys.executable, "-m", "bench.spark.program", *map(str, arguments)]
        program = start(subject, command, log, {})
        try:
            deadline = time.monotonic() + PATIENCE
            while not program.ended(time.monotonic() + 0.5):
                if time.monotonic() > deadline:
                    raise Stalled(f"not done after {PATIENCE:.0f} s; {tail(log)}")
        finally:
            program.kill()
    said = [line for line in log.read_text().splitlines() if line.startswith('{"records"')]
    if not said:
        raise ChildFailed(f"the {subject} said nothing; the end of {log}:\n{tail(log, 25)}")
    result: dict[str, Any] = json.loads(said[-1])
    if result["all"] != records:
        raise Wrong(f"{result['all']:,} of {records:,} records arrived")
    return result
