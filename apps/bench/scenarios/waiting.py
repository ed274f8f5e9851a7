"""What an event costs while others wait: few and many of a stream, and of streams."""

import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.bench import Bench, Wrong, sample
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario
from bench.workload import body
from stores.view_state import TableBusy
from stores.view_state.rocksdb import RocksTable
from topology import Emit, Event, Inspector, Record, Topology, key
from topology.engine.state.short_waits import WaitLimits
from topology.engine.stream_task import StreamTask
from topology.model.collector import COLLECTOR
from topology.model.partition_table import Row
from topology.sequencer.memory_budget import Budget

SHAPES = ((1, 10), (1, 100), (1, 1_000), (1, 10_000), (100, 10), (10_000, 10))
"""How many streams wait, and with how many events each."""
MORE = 20_000
"""Events that come meanwhile."""
STEP, BLOCK = 4_000, 5_000
BUSY = 0.01
"""Seconds that a table gets whose disk is busy; no CPU."""
MANY = "as many of 10,000 streams in turn, in order"
IN_ORDER = "200,000 of one stream, in order"
REVERSED = "200,000 of one stream, in reverse blocks of 5,000"

Place = tuple[int, int]
"""Stream and sequence."""


class Partition:
    """A partition of one view that passes events on, with its table in a folder; no broker.

    done: how many outputs it made.
    """

    def __init__(self, folder: Path) -> None:
        topology = Topology("waiting")
        source = topology.source(
            "in", inspector=Inspector(stream=key(), sequence="seq"), keyed=True, partitions=1
        )
        topology.view("same", of=source, handler=same)
        self._table = RocksTable(folder)
        self._task = StreamTask(
            topology, source, 0, {"same": self._table}, budget=Budget(), limits=WaitLimits()
        )
        self._read = 0
        self.done = 0

    def take(self, places: Iterable[Place]) -> float:
        """Take events in steps. Returns the seconds of CPU that they took."""
        took, waiting, collector = 0.0, iter(places), gc.get_threshold()
        gc.set_threshold(*COLLECTOR)
        while step := list(islice(waiting, STEP)):
            now = time.time_ns() // 1_000_000
            records = [
                Record("in", 0, at, b"%d" % stream, body(stream, sequence, 120), (), now)
                for at, (stream, sequence) in enumerate(step, self._read)
            ]
            self._read += len(records)
            began = time.process_time()
            self._commit(records, now)
            while self._task.unfinished:
                self._commit([], now)
            took += time.process_time() - began
        gc.set_threshold(*collector)
        return took

    def _commit(self, records: Sequence[Record], now: int) -> None:
        unit = self._task.process(records, now)
        self.done += len(unit.colocated["out"]) + len(unit.keyed["out"])
        while not self._written(unit.rows.get("same", ())):
            time.sleep(BUSY)

    def _written(self, rows: Sequence[Row]) -> bool:
        try:
            self._table.write(rows, self._read)
        except TableBusy:  # no broker holds this back, so that it is faster than the disk
            return False
        return True

    def close(self) -> None:
        self._table.close()


def same(event: Event) -> Iterator[Emit]:
    """A handler that passes events on."""
    yield Emit("out", event.message.key, event.message.value)


def run(bench: Bench) -> Iterator[Sample]:
    """Each shape, and a stream of which all comes in reverse."""
    for streams, waiting in SHAPES:
        subject = f"{waiting:,} events wait in {'each of ' if streams > 1 else ''}{streams:,}"
        yield sample(subject, lambda s=streams, w=waiting: behind(bench.folder, s, w))  # type: ignore[misc]
    many = bench.scaled(200_000) // BLOCK * BLOCK or BLOCK
    ordered = range(1, many + 1)
    blocks = [n for first in range(1, many, BLOCK) for n in range(first + BLOCK - 1, first - 1, -1)]
    last = max(1, many // 10_000)
    side_by_side = [(stream, n) for n in range(1, last + 1) for stream in range(10_000)]
    for subject, places in (
        (MANY, side_by_side),
        (IN_ORDER, [(1, sequence) for sequence in ordered]),
        (REVERSED, [(1, sequence) for sequence in blocks]),
    ):
        yield sample(subject, lambda each=places: all_in_all(bench.folder, each))  # type: ignore[misc]


def behind(folder: Path, streams: int, waiting: int) -> dict[str, float]:
    """Microseconds of an event that waits with them, and of one that is let go then."""
    more = max(1, MORE // streams)
    with TemporaryDirectory(dir=folder) as data:
        partition = Partition(Path(data) / "table")
        highest, last = waiting + 1, waiting + 1 + more
        partition.take((stream, n) for n in range(2, highest + 1) for stream in range(streams))
        waits = partition.take(
            (stream, n) for n in range(highest + 1, last + 1) for stream in range(streams)
        )
        goes = partition.take((stream, 1) for stream in range(streams))
        partition.close()
    check(partition, streams * last)
    return {"waits": 1e6 * waits / (more * streams), "goes": 1e6 * goes / (last * streams)}


def all_in_all(folder: Path, places: Sequence[Place]) -> dict[str, float]:
    """Microseconds of an event, with all that is done for it."""
    with TemporaryDirectory(dir=folder) as data:
        partition = Partition(Path(data) / "table")
        took = partition.take(places)
        partition.close()
    check(partition, len(places))
    return {"all": 1e6 * took / len(places)}


def check(partition: Partition, outputs: int) -> None:
    """Raise Wrong unless as many outputs were made."""
    if partition.done != outputs:
        raise Wrong(f"{partition.done} outputs of {outputs} events")


SCENARIO = Scenario(
    "waiting",
    "What an event costs while others wait, microseconds of CPU",
    "A partition of one view in a process of its own, without a broker: ordering, handler and "
    f"table. 20,000 more events come in steps of {STEP:,} while so many wait, and wait as well; "
    "then the first ones come, and all are let go. What waits is in memory up to 128 MB, and rows "
    "beyond.",
    (
        Column("one that waits too", "waits", 1),
        Column("one that is let go", "goes", 1),
        Column("all in all", "all", 1),
    ),
    run,
)  # fmt: skip
