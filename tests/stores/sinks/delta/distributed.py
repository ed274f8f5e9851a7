"""A Delta Lake sink whose batches are folded by Spark's tasks, as executors do it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from stores.sinks import Applied, Batch, DeclaredTable, OnDead, OutputRecord
from stores.sinks.delta.sink import DeltaSink
from tests.stores.sinks.apart import FoldsApart
from tests.stores.sinks.delta.tested_store import DeltaStore

COLUMNS = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}


class DistributedDeltaStore(DeltaStore):
    steps: ClassVar[Sequence[str]] = ("_begin", "_write_staged", "_save_dead", "_save_streams")

    def open(
        self, tables: Iterable[DeclaredTable] = (), shadow: str | None = None
    ) -> "DistributedDeltaSink":
        return DistributedDeltaSink(str(self.folder), tables, shadow, self.spark)


class DistributedDeltaSink(FoldsApart, DeltaSink):
    """Lets a task fold each partition."""

    _buckets = 3

    def apply_apart(
        self, records: list[OutputRecord], batch: Batch | None, on_dead: OnDead | None
    ) -> Applied:
        return self.apply_frame(framed(self._tables.spark, records), batch, on_dead)


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
