"""What is measured against the sinks: writers that protect nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import orjson
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, from_json

from bench.spark.records import COLUMNS, TABLE

Apply = Callable[[DataFrame], int]
"""Writes a batch of records; returns how many they were."""

_CHANGE = (
    "struct<key:struct<stream:string,number:bigint>,"
    "values:struct<status:string,amount:double,note:string,sent:double>>"
)


def _rows(frame: DataFrame) -> DataFrame:
    """The rows of a batch, made of the records by Spark itself."""
    body = from_json(col("value").cast("string"), f"changes array<{_CHANGE}>")
    first = frame.select(body["changes"][0].alias("change"))
    return first.select("change.key.*", "change.values.*")


def jdbc(url: str) -> Apply:
    """Spark's own JDBC writer: executors insert, nothing is noted. url: jdbc:postgresql://…"""

    def apply(frame: DataFrame) -> int:
        frame = frame.persist()
        _rows(frame).write.jdbc(url, TABLE.name, "append", {"driver": "org.postgresql.Driver"})
        count = frame.count()
        frame.unpersist()
        return count

    return apply


def delta(folder: str) -> Apply:
    """Spark's own Delta writer: one append a batch."""

    def apply(frame: DataFrame) -> int:
        frame = frame.persist()
        _rows(frame).write.format("delta").mode("append").save(folder)
        count = frame.count()
        frame.unpersist()
        return count

    return apply


def copied(values: list[Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of records, made of them in Python."""
    for value in values:
        (change,) = orjson.loads(value)["changes"]
        row = {**change["key"], **change["values"]}
        yield tuple(row[column] for column in COLUMNS)
