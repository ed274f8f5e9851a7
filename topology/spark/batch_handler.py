"""A query's batches, handled one at a time in this process, and how it is stopped between two."""

import re
import time
from collections.abc import Iterable, Mapping
from logging import Logger
from threading import Lock

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from stores.sinks import Applied
from topology.model.counted import counted
from topology.spark.fetching import FETCHING

COMMIT_SECONDS = 10.0
"""How long a stop waits for Spark to note the last batch; if it did not, the batch is run again."""


class Stopped(Exception):
    """A batch that was not begun, since the query is being stopped."""


class BatchHandler:
    """What Spark calls with each batch, in a thread of its own; subclasses handle it.

    last: the number of the last batch that was handled. error: why the last one failed, if it did.
    """

    def __init__(self) -> None:
        self.last = -1
        self.error: Exception | None = None
        self.stopping = False
        self.busy = Lock()

    def __call__(self, frame: DataFrame, number: int) -> None:
        with self.busy:
            if self.stopping:
                raise Stopped
            try:
                self.handle(frame, number)
            except Exception as error:
                self.error = error
                raise
            self.last = number

    def handle(self, frame: DataFrame, number: int) -> None:
        """Handle one batch."""
        raise NotImplementedError

    def finish(self, query: StreamingQuery) -> None:
        """Let the batch in hand end, and Spark note it; none is begun after it."""
        with self.busy:
            self.stopping = True
            until = time.monotonic() + COMMIT_SECONDS
            while query.isActive and time.monotonic() < until and _noted(query) < self.last:
                time.sleep(0.02)


def read_topics(
    spark: SparkSession,
    broker: str,
    topics: Iterable[str],
    most: int,
    kafka: Mapping[str, str],
    *,
    headers: bool = False,
) -> DataFrame:
    """The committed records of topics from their beginning, `most` in a batch.

    Topics are subscribed by a pattern that matches just their names, because a topic that does not
    exist yet ends a plain subscription with an error, and is waited for by this one. kafka: further
    options of Spark's Kafka source.
    """
    options = {
        "kafka.bootstrap.servers": broker,
        "subscribePattern": "^(?:" + "|".join(map(re.escape, topics)) + ")$",
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        **FETCHING,
        **kafka,
        "includeHeaders": str(headers).lower(),
        "maxOffsetsPerTrigger": str(most),
        "kafka.isolation.level": "read_committed",
    }
    return spark.readStream.format("kafka").options(**options).load()


def tell_dead(log: Logger, applied: Applied) -> None:
    """Say how many records of a batch a read store did not take, and why not the first."""
    if applied.dead:
        log.warning(
            "%s could not be applied, in the table _dead; the first: %s",
            counted(applied.dead, "record"),
            applied.reason,
        )


def _noted(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])
