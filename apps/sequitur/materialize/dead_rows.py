"""The dead topic of a materializer: records whose row changes could not be applied."""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

from sequitur.kafka.options import without_secrets
from sequitur.spark.exceptions import SPARK_ERRORS
from stores.sinks import DeadRecord, StoreError
from topology.model.large import TOPIC_BYTES
from topology.model.origin_headers import ORIGIN, REASON
from topology.spark.writer import REQUEST_BYTES

BYTES = "sequitur-bytes"
"""Header of a record that was too large for the dead topic: how many its value has, left out."""
_NO_TIME = -1
_REASON_BYTES = 4_000
_SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField(
            "headers",
            ArrayType(
                StructType([StructField("key", StringType()), StructField("value", BinaryType())])
            ),
        ),
    ]
)
_TOO_LARGE = "TooLargeException"
"""What the name of Kafka's error ends with: of a record, or of a batch of one."""

log = logging.getLogger("materializer")


class _Row(NamedTuple):
    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]


class DeadRows:
    """Sends records to a topic before their batch is committed, so each at least once.

    A record that comes twice has the same key, `topic/partition/offset`, and the same value, which
    is that of the record itself; its headers say where it was and why it could not be applied. One
    that is too large for the topic goes without its value, which the read store keeps. The
    topic is made, with one partition, where it is not there.

    kafka: options of Spark's Kafka source, which hold for the sink as well.
    """

    def __init__(
        self, spark: SparkSession, broker: str, topic: str, kafka: Mapping[str, str]
    ) -> None:
        self.topic = topic
        self._spark = spark
        self._options = {**kafka, "kafka.bootstrap.servers": broker}
        self._there = False

    def __call__(self, dead: list[DeadRecord]) -> None:
        """Send them, and return when they are there. Raises StoreError if they cannot be sent."""
        try:
            if not self._there:
                self._make_topic()
                self._there = True
            self._send([_row(each) for each in dead])
        except SPARK_ERRORS as error:
            reason = without_secrets(str(error).partition("\n\tat ")[0], self._options)
            raise StoreError(
                f"dead topic {self.topic!r} cannot be written to: {reason}; see that the broker "
                "takes it, or choose another one with --dead-topic ('' for none)"
            ) from error

    def _send(self, rows: list[_Row]) -> None:
        """Send rows; where some are too large, these without value. Raises one of SPARK_ERRORS."""
        options = {"kafka.max.request.size": str(REQUEST_BYTES), **self._options}
        try:
            frame = self._spark.createDataFrame(rows, _SCHEMA)
            frame.write.format("kafka").options(**options, topic=self.topic).save()
            return
        except SPARK_ERRORS as error:
            if _TOO_LARGE not in str(error) or (len(rows) == 1 and not rows[0].value):
                raise
        if len(rows) == 1:
            self._send([self._without_value(rows[0])])
        else:  # which of them it is, is not said
            middle = len(rows) // 2
            self._send(rows[:middle])
            self._send(rows[middle:])

    def _without_value(self, row: _Row) -> _Row:
        size = len(row.value or b"")
        log.warning(
            "dead topic %r has no room for %s: it goes there without its value of %d bytes, which "
            "the read store keeps; raise the topic's max.message.bytes to have others whole",
            self.topic, row.key.decode(), size,
        )  # fmt: skip
        return _Row(row.key, b"", [*row.headers, (BYTES, b"%d" % size)])

    def _make_topic(self) -> None:
        jvm: Any = self._spark._jvm
        properties = jvm.java.util.Properties()
        for name, value in self._options.items():
            if name.startswith("kafka."):
                properties.setProperty(name.removeprefix("kafka."), value)
        kafka = jvm.org.apache.kafka.clients.admin
        admin = kafka.AdminClient.create(properties)
        try:
            if not admin.listTopics().names().get().contains(self.topic):
                one, default = jvm.java.util.Optional.of(1), jvm.java.util.Optional.empty()
                config = jvm.java.util.HashMap()
                config.put("max.message.bytes", str(TOPIC_BYTES))
                new = jvm.java.util.ArrayList()
                new.add(kafka.NewTopic(self.topic, one, default).configs(config))
                admin.createTopics(new).all().get()
        finally:
            admin.close()


def _row(dead: DeadRecord) -> _Row:
    place = f"{dead.topic}/{dead.partition}/{dead.offset}"
    reason = dead.reason.encode("utf-8", "backslashreplace")[:_REASON_BYTES]
    headers = [(REASON, reason), (ORIGIN, f"{place}/{_NO_TIME}".encode())]
    return _Row(place.encode(), dead.value, headers)
