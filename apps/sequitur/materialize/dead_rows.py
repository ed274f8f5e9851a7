"""The dead topic of a materializer: records whose row changes could not be applied."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

from sequitur.kafka.options import without_secrets
from sequitur.spark.exceptions import SPARK_ERRORS
from stores.sinks import DeadRecord, StoreError
from topology.model.origin_headers import ORIGIN, REASON

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


class DeadRows:
    """Sends records to a topic before their batch is committed, so each at least once.

    A record that comes twice has the same key, `topic/partition/offset`, and the same value, which
    is that of the record itself; its headers say where it was and why it could not be applied. The
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
            frame = self._spark.createDataFrame([_row(each) for each in dead], _SCHEMA)
            frame.write.format("kafka").options(**self._options, topic=self.topic).save()
        except SPARK_ERRORS as error:
            reason = without_secrets(str(error).partition("\n\tat ")[0], self._options)
            raise StoreError(
                f"dead topic {self.topic!r} cannot be written to: {reason}; see that the broker "
                "takes it, or choose another one with --dead-topic ('' for none)"
            ) from error

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
                new = jvm.java.util.ArrayList()
                new.add(kafka.NewTopic(self.topic, one, default))
                admin.createTopics(new).all().get()
        finally:
            admin.close()


def _row(dead: DeadRecord) -> tuple[bytes, bytes | None, list[tuple[str, bytes]]]:
    place = f"{dead.topic}/{dead.partition}/{dead.offset}"
    reason = dead.reason.encode("utf-8", "backslashreplace")[:_REASON_BYTES]
    return place.encode(), dead.value, [(REASON, reason), (ORIGIN, f"{place}/{_NO_TIME}".encode())]
