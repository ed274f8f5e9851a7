"""Writes topics to files of past messages."""

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from topology.spark import history


def export(
    spark: SparkSession,
    broker: str,
    topics: Sequence[str],
    folder: str,
    form: str,
    kafka: Mapping[str, str],
) -> int:
    """Write all committed messages of the topics to files; return how many they are."""
    messages = history.of_everything(spark, {"kafka.bootstrap.servers": broker, **kafka}, topics)
    history.write_files(messages, form, folder)
    counted = history.of_files(spark, form, folder).agg(F.count("*")).collect()
    return int(counted[0][0])
