"""The batch job of a rebuild: streams side by side, each by the workers' sequencer and handlers.

History and the live views' progress are brought together by stream and sorted by Spark; so each
stream is handled by itself, however many there are, and is read and inspected once for all views.
"""

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from topology.declaration.lanes import split_lane
from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.model.errors import Malformed
from topology.spark.messages import messages_of
from topology.spark.slices import Emitted, Slices
from topology.view_rebuild import HistoryPart, Rebuild, Rebuilt, Tally

_KEYED = (
    "topic string, partition int, offset bigint, timestamp bigint, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, stream string"
)
_RESULT = "slice int, tally string"
GC_THRESHOLD = 50_000


@dataclass(frozen=True, slots=True)
class Job:
    """What every task knows.

    source, views: by name, as they are pickled. at: the time of the live views' progress (ms).
    folder: where the slices go. emit: whether what handlers send is kept. chains: whether to hash
    what each stream says. fold: whether a stream's row changes are made one record. every: whether
    a stream that has none has a record even so.
    """

    topology: Topology
    source: str
    views: Sequence[str]
    at: int
    folder: str
    emit: bool = False
    chains: bool = False
    fold: bool = True
    every: bool = False


def by_stream(messages: DataFrame) -> DataFrame:
    """Messages of a by-stream topic, whose keys are the streams."""
    return messages.withColumn("stream", F.col("key").cast("string"))


def inspected(messages: DataFrame, topology: Topology, source: str) -> DataFrame:
    """Messages of a source's own topics, with the streams that its inspector finds.

    One that is malformed is of none, "", where it is counted; one that is unknown is left out.
    """

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        inspect = topology.sources[source].inspect
        for batch in batches:
            streams: list[str | None] = []
            for message in messages_of(batch):
                try:
                    found = inspect(message)
                    streams.append(None if found is None else found[0])
                except Malformed:
                    streams.append("")
            column = pa.array(streams, pa.string())
            with_stream = pa.RecordBatch.from_arrays(
                [*batch.columns, column], names=[*batch.schema.names, "stream"]
            )
            yield with_stream.filter(column.is_valid())

    return messages.mapInArrow(find, _KEYED)


def limits(
    spark: SparkSession, views: Iterable[View], progress: Mapping[str, Mapping[str, bytes]]
) -> DataFrame:
    """How far views are. progress: view → its stream → its progress row.

    Columns: stream (the source's), view, of_view (the view's stream), row.
    """
    streams: list[str] = []
    names: list[str] = []
    of_views: list[str] = []
    rows: list[bytes] = []
    for view in views:
        found = progress.get(view.name, {})
        plain = found if view.split is None else (split_lane(stream)[0] for stream in found)
        streams += plain
        names += [view.name] * len(found)
        of_views += found
        rows += found.values()
    columns = {
        "stream": pa.array(streams, pa.string()),
        "view": pa.array(names, pa.string()),
        "of_view": pa.array(of_views, pa.string()),
        "row": pa.array(rows, pa.binary()),
    }
    return spark.createDataFrame(pa.table(columns))


def cogroup(
    messages: Iterable[DataFrame],
    limits: DataFrame,
    slices: int,
    chosen: Column | DataFrame | None = None,
) -> DataFrame:
    """Streams in slices, in each slice stream by stream: the views' progress, then the messages.

    chosen: a condition on `stream`, or a frame of streams; None for all of them.
    """
    nothing = F.lit(None)
    rows = [
        each.select(
            "stream",
            F.lit("").alias("view"),
            F.lit("").alias("of_view"),
            nothing.cast("binary").alias("row"),
            *(each[name] for name in ("topic", "partition", "offset", "timestamp")),
            *(each[name] for name in ("key", "value", "headers")),
        )
        for each in messages
    ]
    rows.append(
        limits.select(
            "stream",
            "view",
            "of_view",
            "row",
            nothing.cast("string").alias("topic"),
            nothing.cast("int").alias("partition"),
            nothing.cast("bigint").alias("offset"),
            nothing.cast("bigint").alias("timestamp"),
            nothing.cast("binary").alias("key"),
            nothing.cast("binary").alias("value"),
            nothing.cast("array<struct<key: string, value: binary>>").alias("headers"),
        )
    )
    found = reduce(DataFrame.unionByName, rows)
    if isinstance(chosen, DataFrame):
        found = found.join(chosen, "stream", "left_semi")
    elif chosen is not None:
        found = found.where(chosen)
    # Without messages' topics nulls come first: what the views have done is known beforehand. A
    # by-stream partition's offsets are the order in which the views saw its messages.
    return found.repartition(slices, "stream").sortWithinPartitions(
        "stream", "topic", "partition", "offset"
    )


def run(frame: DataFrame, job: Job) -> dict[str, Tally]:
    """Write all slices. Returns view → its numbers. Raises what a task raises."""
    total = {name: Tally() for name in job.views}
    for row in frame.mapInArrow(_task(job), _RESULT).collect():
        for name, numbers in json.loads(row["tally"]).items():
            total[name].add(Tally(**numbers))
    return total


def _task(job: Job) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # What a batch makes lives until the batch is done, and is in no cycle; to look at all of it
        # again and again would take a third of the time.
        gc.set_threshold(GC_THRESHOLD, 20, 100)
        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        slices = Slices(job.folder)
        tally = slices.tally(number)
        if tally is None:
            source = job.topology.sources[job.source]
            rebuild = Rebuild(
                *(job.topology, source, job.views, job.at),
                chains=job.chains,
                fold=job.fold,
                every=job.every,
                emit=job.emit,
            )
            slices.write(number, _rows(rebuild, batches), lambda: _numbers(rebuild.finish()))
            tally = slices.tally(number)
        else:
            for _ in batches:
                pass
        yield pa.RecordBatch.from_arrays(
            [pa.array([number], pa.int32()), pa.array([json.dumps(tally)])],
            names=["slice", "tally"],
        )

    return work


def _numbers(tallies: Mapping[str, Tally]) -> dict[str, Any]:
    return {name: tally.as_dict() for name, tally in tallies.items()}


def _rows(rebuild: Rebuild, batches: Iterator[pa.RecordBatch]) -> Iterator[Rebuilt | Emitted]:
    for records in rebuild.turns(_history(batches)):
        yield from records
        for topic, (key, value, _, headers) in rebuild.emits():
            yield Emitted(topic, key, value, list(headers))


def _history(batches: Iterable[pa.RecordBatch]) -> Iterator[HistoryPart]:
    for batch in batches:
        messages = list(messages_of(batch))
        # Rows that are no messages have no topic, and come first.
        rows = [batch.column(name) for name in ("view", "of_view", "row")]
        runs = pc.run_end_encode(batch.column("stream"))
        at = 0
        for stream, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            first = at
            while first < end and messages[first].topic is None:
                first += 1
            limits = [tuple(row[n].as_py() for row in rows) for n in range(at, first)]
            yield HistoryPart(stream, limits, messages[first:end])
            at = end
