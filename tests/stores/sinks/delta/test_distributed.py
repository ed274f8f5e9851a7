"""Batches of a Delta Lake read store that Spark's tasks fold keep its promises."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from stores.sinks import Applied, Batch, DeclaredTable, OnDead, OutputRecord, Position
from stores.sinks.contract import ORDERS, TOPIC, delete, order, upsert, value
from stores.sinks.contract.store import Crash, crashing
from stores.sinks.delta.sink import DeltaSink
from stores.sinks.distributed import NotDistributed, TasksFailed

pytestmark = pytest.mark.integration

STEPS = ("_begin", "_write_staged", "_save_dead", "_save_streams")
COLUMNS = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}


class DistributedDeltaSink(DeltaSink):
    """Lets a task fold each partition; what is not plain is applied as a materializer does."""

    reasons: tuple[str, ...] = ()
    _buckets = 3

    def apply(
        self,
        records: Iterable[OutputRecord],
        batch: Batch | None = None,
        on_dead: OnDead | None = None,
    ) -> Applied:
        records = list(records)
        try:
            return self.apply_frame(framed(self._tables.spark, records), batch, on_dead)
        except NotDistributed as reason:
            self.reasons = (*self.reasons, str(reason))
            return super().apply(records, batch, on_dead)


def framed(
    spark: SparkSession, records: Iterable[OutputRecord], by: Any = itemgetter(0, 1)
) -> DataFrame:
    """A data frame with a task for each partition, or whatever it is `by`, the last one first."""
    in_order = sorted(records, key=by, reverse=True)
    parts = [list(part) for _, part in groupby(in_order, key=by)]
    types = {**COLUMNS, "value": pa.binary()}

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (n for batch in batches for n in batch.column(0).to_pylist()):
            columns = zip(types.values(), zip(*parts[number], strict=True), strict=True)
            arrays = [pa.array(values, kind) for kind, values in columns]
            yield pa.RecordBatch.from_arrays(arrays, list(types))

    schema = "topic string, partition int, offset bigint, value binary"
    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(read, schema)


class Store:
    """The place of a test's store."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder, self.spark = folder, spark

    def open(self, tables: Iterable[DeclaredTable] = (ORDERS,)) -> DistributedDeltaSink:
        return DistributedDeltaSink(str(self.folder), tables, None, self.spark)

    def rows(self, table: str = "orders") -> dict[int, dict[str, Any]]:
        with self.open() as sink:
            found = list(sink.rows(table))
        assert len({row["id"] for row in found}) == len(found)
        return {row.pop("id"): row for row in found}


@pytest.fixture
def store(tmp_path: Path, spark: SparkSession) -> Store:
    return Store(tmp_path / "read store", spark)


def test_plain_batches_are_folded_by_tasks_and_what_comes_again_is_fenced(store: Store) -> None:
    buried: list[Any] = []
    with store.open() as sink:
        done = sink.apply(_batch(0), Batch("q", 0), buried.extend)
        assert (done.records, done.applied, done.dead) == (5, 4, 1)
        assert (done.upserts, done.deletes) == (4, 1)
        assert [dead.offset for dead in buried] == [3]
        later = [(topic, at, offset + (4, 1)[at], body) for topic, at, offset, body in _batch(0)]
        again = sink.apply(later, Batch("q", 1))  # by other offsets, so fenced by stream
        assert (again.applied, again.duplicates, again.dead, again.upserts) == (0, 4, 1, 0)
        assert sink.reasons == ()
        assert sink.apply(_batch(0), Batch("q", 1)).replayed == 5
        assert list(sink.reasons) == [f"records of topic '{TOPIC}' partition 0 come again"]
        assert sink.last_batch("q") == 1
        assert sink.progress() == [
            Position(TOPIC, 0, 8, applied=3, duplicates=3, dead=2),
            Position(TOPIC, 1, 2, applied=1, duplicates=1),
        ]
        assert sink.apply(_batch(2)).applied == 4
        assert len(sink.reasons) == 1
        assert [dead.offset for dead in sink.last_dead(9)] == [11, 7, 3]
    assert store.rows() == {2: {"state": "2"}, 3: {"state": "2"}, 4: {}}


def test_a_row_that_two_parts_write_is_as_the_last_one_left_it(store: Store) -> None:
    one = upsert("orders", {"id": 1}, state="one")
    other = upsert("orders", {"id": 1}, total=2.0)
    gone = delete("orders", {"id": 1})
    with store.open() as sink:
        for at, (first, second, row) in enumerate(
            (
                (one, other, [{"id": 1, "state": "one", "total": 2.0}]),
                (gone, other, [{"id": 1, "total": 2.0}]),
                (one, gone, []),
            )
        ):
            sink.apply(
                [(TOPIC, 0, at, value("a", at, first)), (TOPIC, 1, at, value("b", at, second))]
            )
            assert list(sink.rows("orders")) == row
        assert sink.reasons == ()


def test_what_is_not_plain_is_left_to_the_driver(store: Store) -> None:
    with store.open() as sink:
        sink.apply([order(0, 1, new="column")])
        sink.apply([order(1, 2), (TOPIC, 1, 0, value("a", 3))])
        assert sink.reasons == (
            "it needs new tables or columns",
            "stream 'a' is in several partitions",
        )
        frame = framed(store.spark, [order(2, 4), order(3, 5)], itemgetter(2))
        with pytest.raises(NotDistributed, match="folded by several tasks"):
            sink.apply_frame(frame)
        with pytest.raises(TasksFailed):
            sink.apply_frame(frame.selectExpr("topic", "partition", "raise_error('x') AS offset"))
        assert [(p.applied, p.duplicates) for p in sink.progress()] == [(2, 0), (1, 0)]


def test_a_writer_that_is_behind_folds_anew(store: Store) -> None:
    with store.open() as sink, store.open() as other:
        sink.apply(_batch(0))
        begin = sink._begin

        def overtaken(*arguments: Any) -> Any:
            setattr(sink, "_begin", begin)  # noqa: B010
            assert other.apply(_batch(1)[1:]).applied == 3
            return begin(*arguments)

        setattr(sink, "_begin", overtaken)  # noqa: B010
        done = sink.apply(_batch(1))
        assert (done.applied, done.replayed) == (1, 4)
        assert sink.progress() == other.progress()
    assert store.rows() == {2: {"state": "1"}, 3: {"state": "1"}, 4: {}}


@pytest.mark.parametrize("step", STEPS)
def test_a_batch_that_is_cut_off_is_applied_once_whatever_it_comes_in(
    step: str, store: Store
) -> None:
    cuts = [("before", [0, 5]), ("after", [0, 5]), ("", [0, 2]), ("", [2, 5])]
    records = sorted(_batch(0), key=itemgetter(1, 2))
    with store.open() as sink:
        sink.apply([(TOPIC, 2, 0, value("z", 1, upsert("orders", {"id": 9}, state="there")))])
    for when, (first, end) in cuts:
        with store.open() as sink:
            if when:
                setattr(sink, step, crashing(getattr(sink, step), when))
                with pytest.raises(Crash):
                    sink.apply(records[first:end], Batch("q", 0))
            else:
                sink.apply(records[first:end])
    with store.open() as sink:
        assert sink.progress() == [
            Position(TOPIC, 0, 4, applied=3, dead=1),
            Position(TOPIC, 1, 1, applied=1),
            Position(TOPIC, 2, 1, applied=1),
        ]
        assert [dead.offset for dead in sink.last_dead(9)] == [3]
        assert sink.apply(_batch(1)).applied == 4
        assert sink.reasons == ()
    assert store.rows() == {2: {"state": "1"}, 3: {"state": "1"}, 4: {}, 9: {"state": "there"}}


def _batch(number: int) -> list[OutputRecord]:
    """An upsert, a delete of its row, two streams, two partitions, a record that is dead."""
    state = f"{number}"
    changes = [
        [upsert("orders", {"id": 1}, state=state), upsert("orders", {"id": 2}, state=state)],
        [delete("orders", {"id": 1}), upsert("orders", {"id": 4})],
    ]
    bodies = [value("a", 2 * number + at, *each) for at, each in enumerate(changes)]
    records = [*bodies, value("b", number, upsert("orders", {"id": 3}, state=state)), b"dead"]
    more = value("c", number, upsert("orders", {"id": 3}, state=state))
    return [
        (TOPIC, 1, number, more),
        *((TOPIC, 0, 4 * number + at, body) for at, body in enumerate(records)),
    ]
