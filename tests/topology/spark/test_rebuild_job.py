"""The batch job on a real Spark: the same as the pure rebuild, slice by slice, from files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.topology.deliveries import Arrival, records
from tests.topology.partition import INSPECTOR
from tests.topology.view_rebuild.rows import ReadStore, rebuilt
from topology import Emit, Event, Inspector, Record, Topology, Upsert, spill
from topology.engine.state.rows import progress_key
from topology.model.origin_headers import ORIGIN, origin
from topology.spark import history, output_hashes, rebuild
from topology.spark.slices import Emitted, SliceRecord, Slices

pytestmark = pytest.mark.integration

SLICES = 3
STREAMS = "abcdefgh"


def count(event: Event, state: dict[str, Any]) -> Iterator[Upsert]:
    state["trail"] = (state.get("trail", 7) * 31 + event.sequence) % 1_000_003
    yield Upsert("board", key={"id": event.stream}, values=state)


def by_lane(event: Event) -> Iterator[Upsert]:
    yield Upsert(
        "lanes", key={"id": event.stream, "lane": event.lane}, values={"n": event.sequence}
    )


def nothing(event: Event) -> Iterator[Upsert]:
    return iter(())


def send(event: Event) -> Iterator[Emit]:
    yield Emit("log", event.stream, {"n": event.sequence})


def count_and_send(event: Event, state: dict[str, Any]) -> Iterator[Upsert | Emit]:
    yield from count(event, state)
    yield from send(event)


def shop() -> Topology:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, name="orders")
    topology.view("board", of=orders, handler=count, full=spill())
    topology.view("lanes", of=orders, handler=by_lane, lane=lambda e: f"{e.sequence % 2}|%")
    return topology


def messages() -> list[Record]:
    arrivals = [Arrival(s, n, 0) for n in (2, 0, 1, 4, 3, 1, 5) for s in STREAMS]
    return records(arrivals)


STATE = {
    "board": {progress_key(s): b"%d" % last for last, s in enumerate(STREAMS, 1)},
    "lanes": {
        progress_key(f"{s}|{lane}%7C%25"): b"%d" % last
        for last, s in enumerate(STREAMS, 1)
        for lane in "01"
    },
}


def frame(spark: SparkSession, found: list[Record]) -> DataFrame:
    """Messages as Kafka's source and files have them."""
    rows = [
        (m.topic, m.partition, m.offset, m.timestamp, m.key, m.value, list(m.headers))
        for m in found
    ]
    return spark.createDataFrame(rows, history.MESSAGES)


def limits(spark: SparkSession, topology: Topology) -> DataFrame:
    progress = {
        view: {key[1:].decode(): value for key, value in rows.items() if key[:1] == b"p"}
        for view, rows in STATE.items()
    }
    return rebuild.limits(spark, topology.views.values(), progress)


def cogroup(spark: SparkSession, topology: Topology, *frames: DataFrame) -> DataFrame:
    return rebuild.cogroup(frames, limits(spark, topology), SLICES)


def job(topology: Topology, folder: Path, **options: Any) -> rebuild.Job:
    return rebuild.Job(topology, "orders", list(topology.views), 0, str(folder), **options)


def said_in(folder: Path) -> list[SliceRecord]:
    slices = Slices(str(folder))
    assert slices.done() == list(range(SLICES))
    rows = [row for n in slices.done() for batch in slices.read(n) for row in batch]
    return [row for row in rows if isinstance(row, SliceRecord)]


def test_files_of_the_source_s_messages_come_to_what_the_pure_rebuild_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    topology, found = shop(), messages()
    broken = Record("orders", 1, 0, None, b"no JSON")
    history.write_files(frame(spark, [*found[:20], broken]), "json", str(tmp_path / "old"))
    history.write_files(frame(spark, found[10:]), "parquet", str(tmp_path / "new"))
    raw = [
        rebuild.inspected(history.of_files(spark, form, str(tmp_path / name)), topology, "orders")
        for form, name in (("json", "old"), ("parquet", "new"))
    ]
    tallies = rebuild.run(cogroup(spark, topology, *raw), job(topology, tmp_path / "slices"))

    pure, numbers = rebuilt(topology, found, STATE)
    ours = said_in(tmp_path / "slices")
    assert sorted((r.view, r.stream, r.value) for r in ours) == sorted(
        (r.view, r.stream, r.value) for r in pure
    )
    for view, tally in tallies.items():
        assert tally.processed == numbers[view].processed
        assert tally.streams == numbers[view].streams
        assert (tally.malformed, numbers[view].malformed) == (1, 0)
    # What is there already is not made again.
    slices = Slices(str(tmp_path / "slices"))
    files = sorted((tmp_path / "slices").glob("*.arrow"))
    files[1].unlink()
    before = {file: file.stat().st_mtime_ns for file in (files[0], files[2])}
    again = rebuild.run(cogroup(spark, topology, *raw), job(topology, tmp_path / "slices"))
    assert again == tallies
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert slices.done() == [0, 1, 2]


def test_a_line_of_a_file_that_is_torn_is_not_passed_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "torn"
    history.write_files(frame(spark, messages()[:20]), "json", str(tmp_path / "whole"))
    text = "".join(each.read_text() for each in (tmp_path / "whole").glob("*.json"))
    folder.mkdir()
    (folder / "messages.json").write_text(text[:-9])
    topology = shop()
    raw = history.of_files(spark, "json", str(folder)).where(F.col("topic") == "orders")
    whole = cogroup(spark, topology, rebuild.inspected(raw, topology, "orders"))
    with pytest.raises((PySparkException, Py4JError), match="MALFORMED_RECORD"):
        rebuild.run(whole, job(topology, tmp_path / "slices"))


@pytest.mark.parametrize("row", [True, False])
def test_messages_of_handlers_are_in_the_slices_if_they_are_wanted(
    spark: SparkSession, tmp_path: Path, row: bool
) -> None:
    topology, found = Topology("shop"), messages()
    orders = topology.source("orders", inspector=INSPECTOR, name="orders")
    topology.view("board", of=orders, handler=count_and_send if row else send, full=spill())
    raw = rebuild.inspected(frame(spark, found), topology, "orders")
    for wanted in (False, True):
        folder = tmp_path / f"slices-{wanted}"
        tally = rebuild.run(cogroup(spark, topology, raw), job(topology, folder, emit=wanted))
        slices = Slices(str(folder))
        rows = [each for n in slices.done() for batch in slices.read(n) for each in batch]
        sent = [each for each in rows if isinstance(each, Emitted)]
        assert len(sent) == wanted * tally["board"].processed
        assert len(rows) - len(sent) == row * len(STREAMS)


def test_streams_that_write_nothing_have_a_record_where_every_stream_has(
    spark: SparkSession, tmp_path: Path
) -> None:
    topology, found = Topology("shop"), messages()
    orders = topology.source("orders", inspector=INSPECTOR, name="orders")
    topology.view("board", of=orders, handler=nothing, full=spill())
    raw = rebuild.inspected(frame(spark, found), topology, "orders")
    rebuild.run(cogroup(spark, topology, raw), job(topology, tmp_path / "slices", every=True))
    pure, _ = rebuilt(topology, found, {"board": STATE["board"]}, every=True)
    ours = said_in(tmp_path / "slices")
    assert sorted((r.stream, r.value) for r in ours) == sorted((r.stream, r.value) for r in pure)
    assert [orjson.loads(r.value)["changes"] for r in ours] == [[] for _ in STREAMS]


def test_events_of_a_keyed_source_are_read_in_short_by_tasks_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    topology, found = Topology("shop"), messages()
    inspector = Inspector("stream", "sequence")
    orders = topology.source("orders", inspector=inspector, keyed=True, partitions=1)
    topology.view("board", of=orders, handler=count, full=spill())
    raw = rebuild.inspected(frame(spark, found), topology, "orders")
    rebuild.run(cogroup(spark, topology, raw), job(topology, tmp_path / "slices"))
    pure, _ = rebuilt(topology, found, {"board": STATE["board"]})
    ours = said_in(tmp_path / "slices")
    assert len(pure) == len(STREAMS)
    assert sorted((r.stream, r.value) for r in ours) == sorted((r.stream, r.value) for r in pure)


def test_a_by_stream_topic_and_what_each_stream_said(spark: SparkSession, tmp_path: Path) -> None:
    topology, found = shop(), messages()
    keyed = [
        Record(
            "shop.orders.by-stream", 0, at, orjson.loads(m.value or b"")["stream"].encode(),
            m.value, [*m.headers, (ORIGIN, origin(m))], 5,
        )
        for at, m in enumerate(found)
    ]  # fmt: skip
    whole = cogroup(spark, topology, rebuild.by_stream(frame(spark, keyed)))
    rebuild.run(whole, job(topology, tmp_path / "slices", chains=True))
    ours = said_in(tmp_path / "slices")
    pure, _ = rebuilt(topology, found, STATE, chains=True)
    store, wanted = ReadStore(), ReadStore()
    assert store.apply(r.value for r in ours).plain() == wanted.apply(r.value for r in pure).plain()

    # The output topic, record by record, says the same, and may go on beyond.
    view = topology.views["board"]
    outputs, _ = rebuilt(topology, found, STATE, fold=False)
    topic = [
        Record(view.output, 0, at, r.stream.encode(), r.value)
        for at, r in enumerate(outputs)
        if r.view == "board"
    ]
    more = orjson.dumps({"view": "board", "stream": "a", "sequence": 99, "changes": []})
    topic.append(Record(view.output, 0, 1000, b"a", more))
    of_board = limits(spark, topology).where("view = 'board'")
    spoken = rebuild.cogroup([rebuild.by_stream(frame(spark, topic))], of_board, 2)
    chains = {r.stream: r.chain for r in ours if r.view == "board"}
    assert output_hashes.hashes(spoken) == chains
    assert len(chains) == len(STREAMS)
