"""The materializer's streaming query: output topics in, batches of a sink out."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sequitur.materialize.dead_rows import DeadRows
from sequitur.materialize.executors import fold_on_executors
from sequitur.materialize.open_sink import dead_of
from sequitur.materialize.report import Done, Report
from sequitur.spark.errors import told
from sequitur.spark.exceptions import SPARK_ERRORS
from stores.sinks import Applied, Batch, OnDead, Sink, StoreError
from stores.sinks.distributed import (
    DistributedSink,
    FrameSink,
    NotDistributed,
    TasksFailed,
    records_of,
)
from stores.sinks.records import check_batch
from topology.model.printable import printable
from topology.spark.batch_handler import BatchHandler, Stopped, read_topics, tell_dead
from topology.spark.checkpoint import Checkpoint
from topology.spark.clock import Ends, parse_offsets, taken

LOOK_SECONDS = 0.5
CHANGED_SECONDS = 2.0
"""Between two looks at whether the topology was deployed anew."""
RECOUNT_SECONDS = 60.0
"""Between two counts of the dead records in the store: a rebuild's switch brings its own."""
LARGE = 20_000
"""Records of a batch that the executors of a cluster fold; the driver is faster for fewer."""
_SPLITTING = {"minpartitions", "maxrecordsperpartition"}
"""Options of Spark's Kafka source that let several tasks read a partition."""
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
    read store. status: a file for what is going on. large: records of a batch that the executors
    fold, where the read store takes it so; None for LARGE on a cluster, and never in Spark's local
    mode, where that is slower.
    """

    broker: str
    topics: Sequence[str]
    checkpoint: str
    max_rows: int = 100_000
    interval: float = 0.1
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    dead_topic: str | None = None
    status: Path | None = None
    large: int | None = None


class Writer(BatchHandler):
    """Hands the query's batches to the sink, and adds up what became of them."""

    def __init__(
        self,
        sink: Sink,
        on_dead: OnDead | None = None,
        done: Done | None = None,
        is_large: Callable[[int], bool] | None = None,
    ) -> None:
        super().__init__()
        self.sink = sink
        self.on_dead = on_dead
        self.done = Done() if done is None else done
        self.is_large = is_large

    def handle(self, frame: DataFrame, number: int) -> None:
        began = time.monotonic()
        context = frame.sparkSession.sparkContext
        query = context.getLocalProperty("sql.streaming.queryId") or "unknown"
        applied = self._apply(frame, Batch(query, number))
        self.done.add(number, applied, time.monotonic() - began)
        tell_dead(log, applied)

    def _apply(self, frame: DataFrame, batch: Batch) -> Applied:
        sink = self.sink
        if self.is_large and self.is_large(batch.number):
            try:
                if isinstance(sink, FrameSink):
                    return sink.apply_frame(frame, batch, self.on_dead)
                if isinstance(sink, DistributedSink):
                    return sink.apply_distributed(fold_on_executors(frame), batch, self.on_dead)
            except TasksFailed as failed:
                self._leave_executors(failed)
            except NotDistributed as reason:
                log.info("batch %d is applied by the driver alone: %s", batch.number, reason)
            except SPARK_ERRORS as error:
                self._leave_executors(error)
        return sink.apply(records_of(frame.toArrow()), batch, self.on_dead)

    def _leave_executors(self, error: Exception) -> None:
        self.is_large = None
        log.warning(
            "the driver applies all batches until it is started again, since tasks on the "
            "executors failed; see that they have what the read store needs, and reach it: %s",
            printable(told(error, {}), 2_000),
        )


class BatchSizes:
    """Which batches are large, by Spark's own notes of them.

    Args:
        checkpoint: that has them.
        large: how many records make a large batch.
    """

    def __init__(self, checkpoint: Checkpoint, large: int) -> None:
        self._checkpoint, self._large = checkpoint, large
        self._last: tuple[int, Ends] | None = None

    def __call__(self, number: int) -> bool:
        """Whether a batch is large."""
        before, ends = self._ends(number - 1), self._ends(number)
        self._last = number, ends
        return sum(taken(before, ends)) >= self._large

    def _ends(self, number: int) -> Ends:
        if self._last is not None and self._last[0] == number:
            return self._last[1]
        noted = self._checkpoint.offsets(number) if number >= 0 else None
        return {} if noted is None else parse_offsets(noted).ends


def start(
    spark: SparkSession, settings: Settings, writer: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    """Start the query."""
    return (
        read_topics(spark, settings.broker, settings.topics, settings.max_rows, settings.kafka)
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
    checkpoint = Checkpoint(spark, settings.checkpoint)
    # A partition whose records Spark lets several tasks read is put together in the driver.
    whole = _SPLITTING.isdisjoint(map(str.lower, settings.kafka))
    local = (spark.sparkContext.master or "").partition("[")[0] == "local"
    large = settings.large or (None if local else LARGE)
    is_large = BatchSizes(checkpoint, large) if large and whole else None
    writer = Writer(sink, on_dead, report.done, is_large)
    committed = checkpoint.committed
    settings = _with_known_topics(checkpoint, settings)
    query = start(spark, settings, writer)
    again = False

    def recount() -> None:
        report.recount(dead_of(sink, settings.topics))

    try:
        if committed >= 0:
            with writer.busy:
                check_batch(Batch(query.id, committed + 1), sink.last_batch(query.id))
        again = _follow(query, report, stop, changed, writer, recount)
        if again or stop.is_set():
            # Spark would report the end of the query, and a batch that is not begun, as errors.
            with _silent(spark, again):
                writer.finish(query)
                if not again:
                    recount()
                    report.look(query, last=True)
                query.stop()
        else:
            report.look(query, last=True)
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


def _with_known_topics(checkpoint: Checkpoint, settings: Settings) -> Settings:
    """Settings that go on with what the checkpoint has begun: Spark leaves no topic away."""
    more = sorted(_known_topics(checkpoint) - set(settings.topics))
    if more:
        log.info(
            "also reading %s, which were read before: what is left in them is applied",
            ", ".join(more),
        )
    return replace(settings, topics=[*settings.topics, *more])


def topics_read(spark: SparkSession, settings: Settings) -> set[str]:
    """The topics that the query reads: also those that were read before, and are left out now."""
    return _known_topics(Checkpoint(spark, settings.checkpoint)) | set(settings.topics)


def _known_topics(checkpoint: Checkpoint) -> set[str]:
    noted, known = checkpoint.offsets(checkpoint.planned), set[str]()
    with suppress(ValueError):  # as a note is before anything was read
        known |= parse_offsets(noted or "").ends.keys()
    return known


def _follow(
    query: StreamingQuery,
    report: Report,
    stop: Event,
    changed: Callable[[], bool],
    writer: Writer,
    recount: Callable[[], None],
) -> bool:
    """Report progress until `stop` is set, the query has ended, or something has changed.

    recount: called between two batches of the writer.
    """
    until = time.monotonic() + CHANGED_SECONDS
    recount_at = time.monotonic() + RECOUNT_SECONDS
    again = False
    while not again and not stop.wait(LOOK_SECONDS) and query.isActive:
        if time.monotonic() >= recount_at and writer.busy.acquire(blocking=False):
            try:
                recount()
            finally:
                writer.busy.release()
            recount_at = time.monotonic() + RECOUNT_SECONDS
        report.look(query)
        if time.monotonic() >= until:
            until, again = time.monotonic() + CHANGED_SECONDS, changed()
    return again
