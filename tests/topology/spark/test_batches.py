"""What a batch that is run again does to a read store, without Spark."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from stores.sinks import Position, Sink, open_sink
from stores.sinks.contract import upsert, value
from topology import Topology
from topology.spark.batches import DIRECT, Batches
from topology.spark.clock import Planned
from topology.spark.codec import Outcome, OutgoingRecord, encode_outcome

OUTPUT = "shop.board"


def run(sink: Sink, number: int, made: int, *changes: tuple[str, int, dict[str, Any]]) -> None:
    """Run a batch of row changes of streams in a driver that has just begun. made: when (ms)."""
    topology = Topology("shop")
    orders = topology.source("orders", inspector=lambda message: None)
    topology.view("board", of=orders)(lambda event: None)
    sent = [OutgoingRecord(OUTPUT, -1, 1, None, value(s, n, row), []) for s, n, row in changes]
    packed = [encode_outcome(Outcome(records=sent))]
    context = SimpleNamespace(
        getLocalProperty=lambda name: "q", setLocalProperty=lambda name, text: None
    )
    frame: Any = SimpleNamespace(
        sparkSession=SimpleNamespace(sparkContext=context),
        toArrow=lambda: pa.table({"packed": packed}),
    )
    nobody: Any = SimpleNamespace(
        counts=lambda: (-1, {}, 0),
        watermark=lambda number: None,
        planned=lambda number: Planned(made, {}),
        write=lambda *batch: None,
        note_removed=lambda topology: None,
    )
    Batches(topology, nobody, nobody, nobody, sink, topics=False)(frame, number)


def test_the_last_batch_is_in_a_read_store_once_and_another_one_of_its_number_is_too(
    tmp_path: Path,
) -> None:
    good, dead = upsert("board", {"id": 1}, n=1), upsert("board", {})
    with open_sink(f"sqlite:///{tmp_path}/read.db") as sink:
        for _ in range(2):
            run(sink, 3, 1000, ("a", 1, good), ("b", 1, dead))
            assert sink.progress() == [Position(OUTPUT, DIRECT, 2, applied=1, dead=1)]
        run(sink, 3, 1001, ("a", 2, good))
        run(sink, 2, 999, ("a", 3, good))
        # A clock that was set back shows the time of the batch before.
        run(sink, 3, 999, ("a", 4, good))
        assert sink.progress() == [Position(OUTPUT, DIRECT, 5, applied=4, dead=1)]
