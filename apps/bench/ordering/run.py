"""Run the bench of ordering: measure each row on a broker, check every output, show the table."""

import tempfile
import time
from collections import defaultdict
from pathlib import Path
from uuid import uuid4

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message
from rich.console import Console
from rich.table import Table

from bench import machine
from bench.cluster import Cluster, Sent
from bench.engine import broker_of
from bench.options import Options
from bench.ordering.work import CONCURRENCY, ROWS, Row, least
from bench.programs import start, worker
from soak.check import read

LONGEST = 120.0
"""Seconds that a row may take before it counts as failed."""


def run(options: Options, console: Console) -> int:
    """Returns the exit status: 0 where every output was right."""
    table = Table("row", "seconds", "bound", "ratio", "goal", "bound of real work", "published")
    with broker_of(options, console) as address:
        wrong = _measure(options, address, table, console)
    console.print(f"{options.events} events, {CONCURRENCY} workers, load {machine.load()}")
    console.print(table)
    for line in wrong:
        console.print(line)
    return 1 if wrong else 0


def _measure(options: Options, broker: str, table: Table, console: Console) -> list[str]:
    wrong: list[str] = []
    for row in (row for row in ROWS if not options.rows or row.name in options.rows):
        took = []
        for _ in range(options.repeats):
            seconds, real, faults = once(row, options.events, broker, options.folder)
            console.print(f"{row.name}: {seconds:.2f} s")
            took.append((seconds, real))
            wrong += faults
        bound, (best, real) = row.bound(options.events), min(took)
        goal = 1.1 * bound + 0.3
        met = "met" if best <= goal else "not met"
        table.add_row(
            row.name, f"{best:.2f}", f"{bound:.2f}", f"{best / bound:.2f}", f"{goal:.2f} {met}",
            f"{real:.2f}",
            "" if row.published is None else f"{row.published}",
        )  # fmt: skip
    return wrong


def once(row: Row, events: int, broker: str, folder: Path) -> tuple[float, float, list[str]]:
    """(seconds from the first event's begin to the last one's commit, the least for what the work
    really took, since no sleep is exact, what was wrong)."""
    cluster, prefix = Cluster(broker), f"ordering-{uuid4().hex[:8]}"
    cluster.create({f"{prefix}.in": 1, f"{prefix}.out": 1})
    cluster.stamp_on_append(f"{prefix}.out")
    messages = row.messages(events)
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as data:
        told = {"ORDERING": f"{prefix} {row.commit} {row.run_in} {broker} {data}"}
        with cluster.held_back(f"{prefix}.in", messages):
            program = start(prefix, worker("bench.topologies.ordering"), folder / "log", told)
            while not cluster.members(prefix):
                time.sleep(0.2)
            time.sleep(2)
        try:
            until, out = time.monotonic() + LONGEST, f"{prefix}.out"
            records, least_end = list[Message](), events
            # Offsets count the markers of transactions too.
            while len(records) < events and time.monotonic() < until:
                if cluster.ends([(out, 0)])[out, 0] >= least_end:
                    records = list(read(broker, out))
                    least_end += events - len(records)
                time.sleep(0.2)
            time.sleep(0.5)
            records = list(read(broker, out))
        finally:
            program.stop()
            cluster.delete(prefix)
    began = min(float((record.value() or b"").split()[1]) for record in records)
    ended = max(_time(record) for record in records) / 1000
    real = least((record.key(), int((record.value() or b"").split()[2])) for record in records)
    return ended - began, real, check(row, messages, records)


def check(row: Row, messages: list[Sent], records: list[Message]) -> list[str]:
    """What is wrong with the outputs: each once, and in the row's order."""
    offsets = [int((record.value() or b"").split()[0]) for record in records]
    wrong = []
    if sorted(offsets) != list(range(len(messages))):
        wrong.append(f"{row.name}: {len(offsets)} outputs of {len(set(offsets))} events")
    if row.commit == "arrival" and offsets != sorted(offsets):
        wrong.append(f"{row.name}: the outputs are not in the order of arrival")
    by_key: dict[bytes | None, list[int]] = defaultdict(list)
    for record, offset in zip(records, offsets, strict=True):
        by_key[record.key()].append(offset)
    by_key.pop(None, None)
    if any(found != sorted(found) for found in by_key.values()):
        wrong.append(f"{row.name}: the outputs of a key are not in its order")
    return wrong


def _time(record: Message) -> int:
    kind, stamp = record.timestamp()
    if kind != TIMESTAMP_LOG_APPEND_TIME:
        raise RuntimeError("the output topic does not have the broker's time")
    return stamp
