"""Past messages as frames: of Kafka topics, and of files.

A file of past messages has the columns of MESSAGES, as Parquet or as lines of JSON, in which bytes
are Base64. Spark's Kafka source says the same, so any job of Spark's can write such files.
"""

import json
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from topology.spark.fetching import FETCHING

MESSAGES = (
    "topic string, partition int, offset bigint, timestamp bigint, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
"""timestamp: in milliseconds since the epoch."""

Ranges = Mapping[str, Mapping[int, tuple[int, int]]]
"""Topic → partition → (first offset, the offset behind the last one)."""

FORMATS = ("parquet", "json")


def of_topics(spark: SparkSession, options: Mapping[str, str], ranges: Ranges) -> DataFrame:
    """The committed messages of ranges of topics, with the columns of MESSAGES.

    options: of Spark's Kafka source, the broker's address among them.
    """
    found = {
        topic: {number: span for number, span in partitions.items() if span[0] < span[1]}
        for topic, partitions in ranges.items()
    }
    found = {topic: partitions for topic, partitions in found.items() if partitions}
    if not found:
        return spark.createDataFrame([], MESSAGES)

    def offsets(which: int) -> str:
        return json.dumps(
            {
                topic: {str(number): span[which] for number, span in partitions.items()}
                for topic, partitions in found.items()
            }
        )

    assigned = {topic: list(partitions) for topic, partitions in found.items()}
    return _read(
        spark,
        {
            **options,
            "assign": json.dumps(assigned),
            "startingOffsets": offsets(0),
            "endingOffsets": offsets(1),
        },
    )


def of_everything(
    spark: SparkSession, options: Mapping[str, str], topics: Iterable[str]
) -> DataFrame:
    """The committed messages of whole topics."""
    return _read(spark, {**options, "subscribe": ",".join(topics)})


def _read(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    own = {"includeHeaders": "true", "kafka.isolation.level": "read_committed"}
    given = {"failOnDataLoss": "true", **FETCHING, **options, **own}
    time = F.unix_millis("timestamp").alias("timestamp")
    columns = ("topic", "partition", "offset", time, "key", "value", "headers")
    return spark.read.format("kafka").options(**given).load().select(*columns)


def of_files(spark: SparkSession, form: str, path: str) -> DataFrame:
    """The messages of files, which are all to be whole. form: 'parquet' or 'json'."""
    reader = spark.read.schema(MESSAGES)
    # A line that is torn is not passed over.
    return reader.parquet(path) if form == "parquet" else reader.json(path, mode="FAILFAST")


def write_files(messages: DataFrame, form: str, path: str) -> None:
    """Write messages to a folder that is not there yet."""
    writer = messages.write.mode("error")
    writer.parquet(path) if form == "parquet" else writer.json(path)
