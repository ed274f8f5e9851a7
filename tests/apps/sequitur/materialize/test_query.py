"""The materializer's own parts, without Spark: what it is told, what it counts, what it refuses."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from sequitur.cli.main import main
from sequitur.materialize.outputs import load_topology, named, outputs_of
from sequitur.materialize.query import BatchSizes, Settings, Writer, topics_read
from stores.sinks import Applied, DeadRecord, StoreError
from stores.sinks.contract import ORDERS, TOPIC, order
from stores.sinks.distributed import NotDistributed
from stores.sinks.sql.sqlite import SqliteSink
from topology import DeclarationError
from topology.spark.batch_handler import Stopped

STORE = ["--read-store", "sqlite:///read.db"]


@pytest.mark.parametrize(
    "place",
    [
        "sequitur.flights.topology:topology",
        "sequitur.flights.topology",
        "sequitur.flights:topology",
    ],
)
def test_a_topology_is_found(place: str) -> None:
    assert load_topology(place).name == "flights"


@pytest.mark.parametrize(
    "place", ["no.such:topology", "sequitur.flights.topology:BOARD", "", "json:x"]
)
def test_a_topology_that_is_not_there_is_refused(place: str) -> None:
    with pytest.raises(DeclarationError, match="topology"):
        load_topology(place)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--topics", "a b"], "topic 'a b'"),
        (["--topics", "a", "--read-store", "mysql://me:hush@host/db"], "mysql://…@host/db"),
        (["--topics", "a", "--kafka-option", "subscribe=x"], "subscribe"),
        (["--topology", "no.such:topology"], "no.such:topology"),
    ],
)
def test_a_mistake_ends_with_status_2_and_its_reason(
    arguments: list[str], says: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["materialize", "--checkpoint", str(tmp_path), *STORE, *arguments]) == 2
    (record,) = [each for each in caplog.records if each.name == "materializer"]
    assert says in record.getMessage()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--checkpoint", "x"],
        ["--topics", "a"],
        ["--topics", "a", "--topology", "b", "--checkpoint", "x"],
        ["--topics", "a", "--checkpoint", "x", "--max-rows-per-trigger", "0"],
        ["--topics", "a", "--checkpoint", "x", "--trigger-interval", "1"],
    ],
)
def test_a_wrong_command_line_ends_with_status_2(arguments: list[str]) -> None:
    assert main(["materialize", *STORE, *arguments]) == 2


def test_settings_do_not_show_kafka_options() -> None:
    assert "hush" not in repr(Settings("b", ["t"], "c", kafka={"kafka.ssl.key.password": "hush"}))


class _Frame:
    """As much of a batch's data frame as a writer looks at."""

    def __init__(self, *records: tuple[str, int, int, bytes | None]) -> None:
        self.records = records
        self.sparkSession = SimpleNamespace(sparkContext=self)

    def getLocalProperty(self, name: str) -> str:
        assert name == "sql.streaming.queryId"
        return "query"

    def toArrow(self) -> pa.Table:
        topics, partitions, offsets, values = zip(*self.records, strict=True)
        columns = {
            "topic": pa.array(topics, pa.string()),
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
        return pa.table(columns)


def _frame(*records: tuple[str, int, int, bytes | None]) -> Any:
    return cast(Any, _Frame(*records))


def test_a_writer_applies_batches_and_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SqliteSink(tmp_path / "read.db", [ORDERS]) as sink:
        writer = Writer(sink)
        writer(_frame(order(0, 1), order(1, 2)), 0)
        with caplog.at_level(logging.WARNING):
            writer(_frame(order(1, 2), order(2, 2), (TOPIC, 0, 3, None)), 1)
        done, total = writer.done, writer.done.total
        assert (total.records, total.applied, total.replayed) == (5, 2, 1)
        assert (total.duplicates, total.dead, done.batches, done.number) == (1, 1, 2, 1)
        assert sink.last_batch("query") == 1
        assert f"{TOPIC}/0 offset 3: the record has no value" in caplog.text


def test_a_writer_hands_dead_records_on_before_it_counts_them(tmp_path: Path) -> None:
    told: list[DeadRecord] = []
    with SqliteSink(tmp_path / "read.db", [ORDERS]) as sink:
        writer = Writer(sink, told.extend)
        writer(_frame(order(0, 1), (TOPIC, 0, 1, b"{")), 0)
        writer(_frame(order(0, 1), (TOPIC, 0, 1, b"{")), 1)
    ((topic, partition, offset, reason, value),) = told
    assert (topic, partition, offset, value) == (TOPIC, 0, 1, b"{")
    assert "not JSON" in reason


def test_a_batch_whose_dead_records_cannot_be_told_is_not_applied(tmp_path: Path) -> None:
    def fails(dead: list[DeadRecord]) -> None:
        raise ConnectionError("no broker")

    with SqliteSink(tmp_path / "read.db", [ORDERS]) as sink:
        writer = Writer(sink, fails)
        with pytest.raises(ConnectionError):
            writer(_frame(order(0, 1), (TOPIC, 0, 1, b"{")), 0)
        assert sink.progress() == []
        assert sink.last_batch("query") is None


def test_a_writer_keeps_the_error_of_a_batch(tmp_path: Path) -> None:
    with SqliteSink(tmp_path / "read.db", [ORDERS]) as sink:
        writer = Writer(sink)
        with pytest.raises(StoreError):
            writer(_frame(order(0, 1)), 5)
        assert isinstance(writer.error, StoreError)
        assert (writer.done.batches, writer.done.number) == (0, -1)


def test_large_batches_are_known_by_the_checkpoint_s_notes() -> None:
    read = list[int]()
    notes = {
        0: '{"t":{"0":5,"1":5}}',
        1: '{"t":{"0":14,"1":5}}',
        2: '{"t":{"0":14,"1":6},"u":{"0":9}}',
    }

    class Notes:
        def offsets(self, batch: int) -> str | None:
            read.append(batch)
            return f'v1\n{{"batchTimestampMs":1}}\n{notes[batch]}' if batch in notes else None

    is_large = BatchSizes(cast(Any, Notes()), 10)
    assert [is_large(number) for number in (0, 1, 2)] == [True, False, True]
    assert read == [0, 1, 2]


def test_topics_that_the_checkpoint_has_begun_are_read_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Notes:
        planned = 7

        def __init__(self, spark: Any, folder: str) -> None:
            self.known = folder == "begun"

        def offsets(self, batch: int) -> str | None:
            return 'v1\n{"batchTimestampMs":1}\n{"t":{"0":5}}' if self.known else None

    monkeypatch.setattr("sequitur.materialize.query.Checkpoint", Notes)
    for folder, read in (("begun", {"t", "u"}), ("new", {"u"})):
        assert topics_read(cast(Any, None), Settings("broker", ["u"], folder)) == read


def test_executors_that_cannot_write_leave_batches_to_the_driver(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Distributed(SqliteSink):
        tried = 0

        def apply_distributed(self, *_: Any) -> Applied:
            self.tried += 1
            raise NotDistributed("new") if self.tried == 1 else PySparkException("no psycopg")

    with Distributed(tmp_path / "read.db", [ORDERS]) as sink:
        writer = Writer(sink, is_large=lambda number: number > 0)
        for number in range(5):
            writer(_frame(order(number, number + 1)), number)
        assert (sink.tried, writer.done.total.applied, sink.last_batch("query")) == (2, 5, 4)
    (record,) = [each for each in caplog.records if each.name == "materializer"]
    assert "no psycopg" in record.getMessage()


def test_a_writer_that_is_stopping_begins_no_batch(tmp_path: Path) -> None:
    with SqliteSink(tmp_path / "read.db", [ORDERS]) as sink:
        writer = Writer(sink)
        writer.stopping = True
        with pytest.raises(Stopped):
            writer(_frame(order(0, 1)), 0)
        assert sink.progress() == []
        assert writer.error is None


@pytest.mark.parametrize(
    ("given", "expected"), [(None, "flights.dead-records"), ("", None), ("mine", "mine")]
)
def test_where_bad_records_go(given: str | None, expected: str | None) -> None:
    assert outputs_of("sequitur.flights:topology", given).dead_topic == expected
    assert named("a, b", given) == (["a", "b"], [], given or None)
