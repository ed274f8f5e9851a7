"""Run a topology as a streaming query: Kafka in, ordered by stream in Spark's state, Kafka out."""

import logging
import os
from threading import Event

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from stores.sinks import Sink
from topology.declaration.environment import chosen_inspectors
from topology.declaration.topology import Topology
from topology.engine.intake import IntakeCounts
from topology.model.counts import Counts
from topology.spark.batch_handler import Stopped, read_topics
from topology.spark.batches import Batches
from topology.spark.checkpoint import Checkpoint
from topology.spark.clock import BatchClock
from topology.spark.inspecting import ROWS, Inspection
from topology.spark.messages import COLUMNS
from topology.spark.processor import OUTCOMES, StreamProcessor
from topology.spark.reference import Reference, refer
from topology.spark.settings import Settings
from topology.spark.supported import check_supported
from topology.spark.writer import OutputWriter

log = logging.getLogger("topology.spark")

LOOK_SECONDS = 0.2
STOP_SECONDS = 15

_STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A batch writes what it changed rather than a copy of the store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stopTimeout": f"{STOP_SECONDS}s",
}


class LiveQuery:
    """A topology that runs on Spark; made by `start`.

    Attributes:
        query: Spark's own handle.
        batches: what runs a batch.
        writer: what writes the outputs of a batch.
    """

    def __init__(self, query: StreamingQuery, batches: Batches, writer: OutputWriter) -> None:
        self.query = query
        self._batches = batches
        self._writer = writer

    def counts(self) -> dict[str, Counts]:
        """View → where its events ended: as of the last batch, over restarts."""
        return self._batches.counts()

    def taken(self) -> dict[str, IntakeCounts]:
        """Source → what became of its messages, as of the last batch; over restarts."""
        return self._batches.taken()

    @property
    def last_batch(self) -> int:
        """The number of the last batch whose outputs are written, -1 before the first."""
        return self._batches.last

    def stop(self) -> None:
        """Let the batch in hand end, and stop.

        Raises:
            Exception: what ended the query before it was stopped, if something did.
        """
        query, batches = self.query, self._batches
        try:
            batches.finish(query)
            ended = not query.isActive
            query.stop()
            error = batches.error or (query.exception() if ended else None)
        except (PySparkException, Py4JError, ConnectionError) as gone:
            error = batches.error or gone
        finally:
            self._writer.close()
        if error is not None and not isinstance(error, Stopped):
            raise error


def start(
    topology: Topology | str,
    settings: Settings,
    spark: SparkSession,
    sink: Sink | None = None,
) -> LiveQuery:
    """Start a topology as a streaming query, and return at once.

    A source's inspector is the one that SEQUITUR_INSPECTOR_<SOURCE> names, if it is set.

    Args:
        topology: the object, which is in a module that Spark's Python workers can import, or its
            'module:name'.
        settings: how it runs.
        spark: the session, in classic mode.
        sink: a read store that row changes go straight into; it is the caller's to close.

    Returns:
        The query that runs.

    Raises:
        DeclarationError: something of the topology does not run on Spark.
        CannotRun: a topic or the checkpoint does not fit.
    """
    reference, topology = _named(topology)
    check_supported(topology)
    for name, value in _STATE.items():
        spark.conf.set(name, value)
    checkpoint = Checkpoint(spark, settings.checkpoint)
    checkpoint.check(topology)
    clock = BatchClock(checkpoint.offsets, checkpoint.limits(settings.max_records).of)
    writer = OutputWriter(settings, topology)
    try:
        writer.start(checkpoint.query)
        batches = Batches(topology, checkpoint, clock, writer, sink, topics=settings.topics)
        query = (
            _outcomes(spark, reference, topology, settings)
            .writeStream.foreachBatch(batches)
            .queryName(topology.name)
            .option("checkpointLocation", settings.checkpoint)
            .trigger(processingTime=f"{round(settings.interval * 1000)} milliseconds")
            .start()
        )
    except BaseException:
        writer.close()
        raise
    return LiveQuery(query, batches, writer)


def run(
    topology: Topology | str,
    settings: Settings,
    spark: SparkSession,
    stop: Event,
    sink: Sink | None = None,
) -> None:
    """Run a topology until `stop` is set; the batch in hand ends then.

    Args:
        topology: see `start`.
        settings: how it runs.
        spark: the session, in classic mode.
        stop: is set by a signal handler or another thread.
        sink: see `start`.

    Raises:
        Exception: what ended the query: one of Spark's errors, aiokafka's, or the sink's
            StoreError; or what `start` raises.
    """
    live = start(topology, settings, spark, sink)
    try:
        while not stop.wait(LOOK_SECONDS) and live.query.isActive:
            pass
    finally:
        live.stop()


def _named(topology: Topology | str) -> tuple[Reference, Topology]:
    chosen = chosen_inspectors(refer(topology).load(), os.environ)
    reference = refer(topology, chosen)
    return reference, reference.load()


def _outcomes(
    spark: SparkSession, reference: Reference, topology: Topology, settings: Settings
) -> DataFrame:
    """The outcomes of all streams' steps: one column, `packed`."""
    topics = [topic for source in topology.sources.values() for topic in source.topics]
    topics += [view.commands_topic for view in topology.views.values()]
    most, kafka = settings.max_records, settings.kafka
    read = read_topics(spark, settings.broker, topics, most, kafka, headers=True)
    time = "unix_millis(timestamp) AS timestamp"
    names = ("topic", "partition", "offset", time, "key", "value", "headers")
    messages = read.selectExpr(*names)
    assert set(messages.columns) == set(COLUMNS)
    return (
        messages.mapInArrow(Inspection(reference), ROWS)
        .groupBy("place")
        .transformWithState(StreamProcessor(reference), OUTCOMES, "append", "processingTime")
    )
