"""`python -m bench.spark.program WRITER PLACE BROKER TOPIC RECORDS BATCH`: one run, measured.

Reads a topic into a store, batch by batch, and prints a line of JSON: how many records, over how
many seconds, and for each batch (records, seconds, the latencies of its records in ms). The first
batch does not count, in which JVM and writers warm up, unless it is the only one. On a cluster of
two executors (WRITER driver or executors) it also says what the driver's processes used.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

from bench.spark.records import COLUMNS, TABLE

ON_CLUSTER = ("driver", "executors")
"""Who writes a batch, on a cluster of two executors."""
_CLUSTER = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "1g",
}
SILENCE = 120.0
"""Seconds without a batch after which a run is given up."""


class Watch:
    """Batches as they end."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.batches: list[tuple[int, float, list[float]]] = []
        self.first = self.last = time.monotonic()
        self.records = 0
        self.done = Event()
        self.usage: Callable[[], dict[str, float]] = dict
        self.before: dict[str, float] = {}
        self.after: dict[str, float] = {}

    def end(self, records: int, began: float, sent: list[float]) -> None:
        """Note a batch that began then, whose records were sent at these times."""
        if not records:
            return
        self.last, now = time.monotonic(), time.time()
        latencies = [round((now - at) * 1000, 1) for at in sent if at]
        self.batches.append((records, self.last - began, latencies))
        if not self.records:
            self.first, self.before = self.last, self.usage()
        self.records += records
        if self.records >= self.total:
            self.after = self.usage()
            self.done.set()

    def result(self) -> dict[str, Any]:
        records, seconds = 0, 0.0
        if len(self.batches) == 1:
            records, seconds, _ = self.batches[0]
        elif self.batches:
            records, seconds = self.records - self.batches[0][0], self.last - self.first
        return {
            "records": records,
            "seconds": seconds,
            "batches": self.batches,
            "all": self.records,
            "used": {
                name: value - self.before[name] if name.startswith("cpu") else value
                for name, value in self.after.items()
            },
        }


def main(writer: str, place: str, broker: str, topic: str, total: int, size: int) -> int:
    watch = Watch(total)
    run: dict[str, Callable[..., None]] = dict.fromkeys(("sink", *ON_CLUSTER), _sink)
    run["copy"] = _copy
    run.get(writer, _writer)(watch, writer, place, broker, topic, size)
    print(json.dumps(watch.result()), flush=True)
    return 0 if watch.records >= total else 1


def _sink(watch: Watch, writer: str, place: str, broker: str, topic: str, size: int) -> None:
    """The materializer, with a sink that is watched."""
    from sequitur.materialize.query import Settings, materialize
    from sequitur.materialize.report import Report
    from sequitur.spark.session import spark_session
    from stores.sinks import open_sink
    from stores.sinks.by_url import needs_spark

    cluster = _CLUSTER if writer in ON_CLUSTER else {}
    spark = spark_session("bench", delta=needs_spark(place), settings=cluster)
    if cluster:
        watch.usage = partial(used, _jvm(spark))
    with tempfile.TemporaryDirectory() as folder, open_sink(place, [TABLE]) as sink:
        apply = sink.apply

        def watched(records: Any, *more: Any) -> Any:
            began = time.monotonic()
            records = list(records)
            applied = apply(records, *more)
            watch.end(applied.applied, began, _sent(records))
            return applied

        setattr(sink, "apply", watched)  # noqa: B010
        for name in ("apply_distributed", "apply_frame"):
            if on_executors := getattr(sink, name, None):

                def watched_too(*given: Any, write: Any = on_executors) -> Any:
                    began = time.monotonic()
                    applied = write(*given)
                    watch.end(applied.applied, began, [])
                    return applied

                setattr(sink, name, watched_too)
        large = {"driver": sys.maxsize, "executors": 1}.get(writer)
        settings = Settings(broker, [topic], folder, size, large=large)
        materialize(spark, sink, settings, watch.done, Report(broker, [topic]))
    spark.stop()


def _jvm(spark: Any) -> int:
    """The process of the driver's JVM."""
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())


def used(jvm: int) -> dict[str, float]:
    """CPU seconds by now and the most memory (MB), of the driver's Python and its JVM."""
    found: dict[str, float] = {}
    for name, process in (("python", "self"), ("jvm", str(jvm))):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        found[f"cpu {name}"] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        status = Path(f"/proc/{process}/status").read_text()
        found[f"memory {name}"] = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return found


def _sent(records: list[Any]) -> list[float]:
    """When records were sent; only looked at where a batch is small."""
    if len(records) > 1_000:
        return []
    found = (json.loads(r[3])["changes"][0]["values"]["sent"] for r in records)
    return [float(at) for at in found]


def _writer(watch: Watch, writer: str, place: str, broker: str, topic: str, size: int) -> None:
    """The materializer's query, with a writer that protects nothing."""
    from pyspark.sql import DataFrame

    from bench.peers.java import JARS
    from bench.spark import writers
    from bench.spark.stores import JDBC
    from sequitur.materialize.query import Settings, start
    from sequitur.spark.exceptions import SPARK_ERRORS
    from sequitur.spark.session import spark_session

    driver = (JARS / JDBC.name).glob("*.jar") if writer == "jdbc" else ()
    spark = spark_session("bench", delta=writer == "delta", more=driver)
    apply = {"jdbc": writers.jdbc, "delta": writers.delta}[writer](place)

    def batch(frame: DataFrame, _: int) -> None:
        began = time.monotonic()
        watch.end(apply(frame), began, [])

    with tempfile.TemporaryDirectory() as folder:
        query = start(spark, Settings(broker, [topic], folder, size), batch)
        while not watch.done.wait(0.1) and query.isActive:
            if time.monotonic() - watch.last > SILENCE:
                break
        error = query.exception()
        with suppress(*SPARK_ERRORS):
            query.stop()
        if error is not None:
            raise error
    spark.stop()


def _copy(watch: Watch, _: str, place: str, broker: str, topic: str, size: int) -> None:
    """A plain loop: consume, decode, COPY, commit."""
    import psycopg
    from confluent_kafka import Consumer

    from bench.spark.writers import copied

    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": f"sequitur-bench-{uuid4()}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    columns = "stream TEXT, number BIGINT, status TEXT, amount FLOAT8, note TEXT, sent FLOAT8"
    with psycopg.connect(place) as connection:
        connection.execute(f"CREATE TABLE {TABLE.name} ({columns})")
        connection.commit()
        sql = f"COPY {TABLE.name} ({', '.join(COLUMNS)}) FROM STDIN"
        while not watch.done.is_set():
            began = time.monotonic()
            values: list[Any] = []
            while len(values) < size and time.monotonic() - began < 1.0:
                values += [m.value() for m in consumer.consume(10_000, 0.1) if m.error() is None]
            with connection.cursor() as cursor, cursor.copy(sql) as copy:
                for row in copied(values):
                    copy.write_row(row)
            connection.commit()
            consumer.commit(asynchronous=False) if values else None
            watch.end(len(values), began, [])
            if time.monotonic() - watch.last > SILENCE:
                break
    consumer.close()


if __name__ == "__main__":
    writer, place, broker, topic, total, size = sys.argv[1:]
    sys.exit(main(writer, place, broker, topic, int(total), int(size)))
