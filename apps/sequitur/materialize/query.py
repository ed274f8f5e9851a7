"""The materializer's streaming query: output topics in, batches of a sink out."""

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sequitur.materialize.dead_rows import DeadRows
from sequitur.materialize.report import Done, Report
from sequitur.spark.checkpoints import checkpoint_topics, committed_batch
from sequitur.spark.exceptions import SPARK_ERRORS
from stores.sinks import Applied, Batch, OnDead, OutputRecord, Sink, StoreError
from stores.sinks.records import check_batch
from topology.model.counted import counted
from topology.spark.fetching import FETCHING

LOOK_SECONDS = 0.5
CHANGED_SECONDS = 2.0
"""Between two looks at whether the topology was deployed anew."""
COMMIT_SECONDS = 5.0
"""How long a stop waits for Spark to note the last batch; if it did not, the batch is replayed."""
STOP_SECONDS = 15
"""How long a stop waits for what else Spark has in hand, such as a broker that does not answer."""

log = logging.getLogger("materializer")


@dataclass(frozen=True, slots=True)
class Settings:
    """What to read, and how much at once.

    topics: they need not exist yet. checkpoint: Spark's own notes of how far it read, a folder on
    any file system that Spark knows. max_rows: records of one batch. interval: seconds between the
    starts of two batches; 0 looks for records without a pause. kafka: further options of Spark's
    Kafka source; they may hold secrets. dead_topic: for records that cannot be applied, besides the
    read store. status: a file for what is going on.
    """

    broker: str
    topics: Sequence[str]
    checkpoint: str
    max_rows: int = 100_000
    interval: float = 0.1
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    dead_topic: str | None = None
    status: Path | None = None


class Stopped(Exception):
    """A batch that was not begun, since the query is being stopped."""


class Writer:
    """Hands the query's batches to the sink, one at a time, and adds up what became of them.

    error: why the last batch failed, if it did.
    """

    def __init__(self, sink: Sink, on_dead: OnDead | None = None, done: Done | None = None) -> None:
        self.sink = sink
        self.on_dead = on_dead
        self.done = Done() if done is None else done
        self.number = -1
        self.error: Exception | None = None
        self.stopping = False
        self.busy = Lock()

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Apply one batch; called by Spark in a thread of its own."""
        with self.busy:
            if self.stopping:
                raise Stopped
            began = time.monotonic()
            try:
                context = frame.sparkSession.sparkContext
                query = context.getLocalProperty("sql.streaming.queryId") or "unknown"
                records = _records(frame.toArrow())
                applied = self.sink.apply(records, Batch(query, number), self.on_dead)
            except Exception as error:
                self.error = error
                raise
            self.done.add(number, applied, time.monotonic() - began)
            self.number = number
            _warn(applied)


def _warn(applied: Applied) -> None:
    if applied.dead:
        log.warning(
            "%s could not be applied, in the table _dead; the first: %s",
            counted(applied.dead, "record"),
            applied.reason,
        )


def _records(table: pa.Table) -> Iterator[OutputRecord]:
    columns = (table[name].to_pylist() for name in ("topic", "partition", "offset", "value"))
    return zip(*columns, strict=True)


def start(
    spark: SparkSession, settings: Settings, writer: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    """Start the query.

    Topics are subscribed by a pattern that matches just their names, because a topic that does not
    exist yet ends a plain subscription with an error, and is waited for by this one.
    """
    reader = spark.readStream.format("kafka").options(
        **{
            "kafka.bootstrap.servers": settings.broker,
            "subscribePattern": "^(?:" + "|".join(map(re.escape, settings.topics)) + ")$",
            "startingOffsets": "earliest",
            "failOnDataLoss": "true",
            "maxOffsetsPerTrigger": str(settings.max_rows),
            **FETCHING,
            **settings.kafka,
            "kafka.isolation.level": "read_committed",
        }
    )
    return (
        reader.load()
        .select("topic", "partition", "offset", "value")
        .writeStream.foreachBatch(writer)
        .option("checkpointLocation", settings.checkpoint)
        .trigger(processingTime=f"{round(settings.interval * 1000)} milliseconds")
        .start()
    )


def materialize(
    spark: SparkSession,
    sink: Sink,
    settings: Settings,
    stop: Event,
    report: Report,
    changed: Callable[[], bool] = lambda: False,
) -> bool:
    """Run until `stop` is set or something has changed, and let the batch in hand end then.

    changed: asked every few seconds. Returns whether it was that. Raises what ended the query:
    StoreError from the sink, one of SPARK_ERRORS from Spark.
    """
    spark.conf.set("spark.sql.streaming.stopTimeout", f"{STOP_SECONDS}s")
    dead = settings.dead_topic
    on_dead = DeadRows(spark, settings.broker, dead, settings.kafka) if dead else None
    writer = Writer(sink, on_dead, report.done)
    committed = committed_batch(spark, settings.checkpoint)
    query = start(spark, _with_known_topics(spark, settings), writer)
    again = False
    try:
        if committed is not None:
            with writer.busy:
                check_batch(Batch(query.id, committed + 1), sink.last_batch(query.id))
        again = _follow(query, report, stop, changed)
        if again or stop.is_set():
            # Spark would report the end of the query, and a batch that is not begun, as errors.
            with _silent(spark, again):
                _finish(query, writer)
        error = writer.error or (None if again else query.exception())
    except SPARK_ERRORS as gone:
        error = writer.error or gone
    if stop.is_set() and not isinstance(error, StoreError):
        if error is not None and not isinstance(error, Stopped):
            log.info("Spark did not stop in order; a batch in hand is read again next time")
        return False
    if error is not None:
        raise error
    return again


@contextmanager
def _silent(spark: SparkSession, again: bool) -> Iterator[None]:
    """Without what Spark logs; from then on too, unless it is to begin again."""
    logs: Any = spark._jvm.org.apache.logging.log4j.LogManager  # type: ignore[union-attr]
    level = str(logs.getRootLogger().getLevel().toString())
    spark.sparkContext.setLogLevel("OFF")
    yield
    if again:
        spark.sparkContext.setLogLevel(level)


def _with_known_topics(spark: SparkSession, settings: Settings) -> Settings:
    """Settings that go on with what the checkpoint has begun: Spark leaves no topic away."""
    known = checkpoint_topics(spark, settings.checkpoint)
    more = sorted(known - set(settings.topics))
    if more:
        log.info(
            "also reading %s, which were read before: what is left in them is applied",
            ", ".join(more),
        )
    return replace(settings, topics=[*settings.topics, *more])


def _follow(
    query: StreamingQuery, report: Report, stop: Event, changed: Callable[[], bool]
) -> bool:
    """Report progress until `stop` is set, the query has ended, or something has changed."""
    until = time.monotonic() + CHANGED_SECONDS
    again = False
    while not again and not stop.wait(LOOK_SECONDS) and query.isActive:
        report.look(query)
        if time.monotonic() >= until:
            until, again = time.monotonic() + CHANGED_SECONDS, changed()
    if not again:
        report.look(query, last=True)
    return again


def _finish(query: StreamingQuery, writer: Writer) -> None:
    """Let the batch in hand end, let Spark note it, and stop the query."""
    with writer.busy:
        writer.stopping = True
        until = time.monotonic() + COMMIT_SECONDS
        while query.isActive and time.monotonic() < until and _batch(query) < writer.number:
            time.sleep(0.02)
    query.stop()


def _batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else progress["batchId"]
