"""What Spark notes of a query in its checkpoint, on any file system that it knows."""

import json
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession


def committed_batch(spark: SparkSession, checkpoint: str) -> int | None:
    """The number of the last batch that Spark noted as done in this checkpoint, None if none is."""
    return max(_numbers(spark, checkpoint, "commits"), default=None)


def checkpoint_topics(spark: SparkSession, checkpoint: str) -> set[str]:
    """The topics that were read with this checkpoint, as its last note of offsets has them."""
    numbers = _numbers(spark, checkpoint, "offsets")
    if not numbers:
        return set()
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/offsets", str(max(numbers)))
    stream = path.getFileSystem(spark._jsc.hadoopConfiguration()).open(path)
    try:
        text = str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()
    return topics_in(text)


def topics_in(text: str) -> set[str]:
    """The topics in a note of offsets: a version, how the batch was begun, and what it reads."""
    found: set[str] = set()
    for line in text.splitlines()[2:]:
        with suppress(ValueError):
            offsets = json.loads(line)
            if isinstance(offsets, dict):
                found |= offsets.keys()
    return found


def _numbers(spark: SparkSession, checkpoint: str, folder: str) -> list[int]:
    """The numbers of batches that have a note in a folder of the checkpoint."""
    notes = spark._jvm.org.apache.hadoop.fs.Path(checkpoint, folder)  # type: ignore[union-attr]
    files = notes.getFileSystem(spark._jsc.hadoopConfiguration())
    if not files.exists(notes):
        return []
    names = [status.getPath().getName() for status in files.listStatus(notes)]
    return [int(name) for name in names if name.isdigit()]
