"""Make the archives of classes that the JVMs of this checkout start with: a step of the set-up.

Spark and a broker run for a moment each, do what they mostly do, and write what they loaded.
"""

import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark import SparkContext

from sequitur.local import broker_config, class_archives, jvm
from sequitur.local.broker import Broker
from sequitur.spark.session import spark_session

_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_SECONDS = 300
"""For each thing that is waited for: a JVM that writes an archive takes long to end."""


def main() -> int:
    """Make all of them anew; returns the exit status."""
    class_archives.JAVA.parent.mkdir(parents=True, exist_ok=True)
    for archive in class_archives.ALL:
        archive.unlink(missing_ok=True)
    options = [*class_archives.mapping(class_archives.JAVA), "-Xshare:dump"]
    subprocess.run([str(jvm.java()), *options], check=True)
    context = multiprocessing.get_context("spawn")
    made = (class_archives.BROKER, _broker), (class_archives.SPARK, _spark)
    both = [context.Process(target=_make, args=each) for each in made]
    for process in both:
        process.start()
    for process in both:
        process.join()
    return int(any(process.exitcode for process in both))


def _make(archive: Path, run: Callable[[Path, list[str]], None]) -> None:
    made = archive.with_suffix(".new")
    made.unlink(missing_ok=True)
    with TemporaryDirectory(dir=archive.parent) as folder:
        run(Path(folder), class_archives.writing(made))
    made.replace(archive)


def _broker(folder: Path, writing: list[str]) -> None:
    broker = Broker(folder)
    with broker:
        print("a broker made its folder", flush=True)
    broker_config.JVM_OPTIONS += (*_QUICK, *writing)
    with broker:
        print("a broker loads its classes", flush=True)
        kafka: dict[str, Any] = {"bootstrap.servers": broker.address, "log_level": 0}
        admin = AdminClient(kafka)
        admin.create_topics([NewTopic("events", 1)])["events"].result(_SECONDS)
        producer = Producer({**kafka, "transactional.id": "archives"})
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
        producer.produce("events", b"{}")
        producer.commit_transaction(_SECONDS)
        of_start = {"auto.offset.reset": "earliest"}
        consumer = Consumer({**kafka, "group.id": "archives", **of_start})
        consumer.subscribe(["events"])
        consumer.consume(1, _SECONDS)
        consumer.commit(asynchronous=False)
        consumer.close()
        broker.stop(_SECONDS)


def _spark(folder: Path, writing: list[str]) -> None:
    print("Spark loads its classes", flush=True)
    options = {"spark.driver.extraJavaOptions": " ".join([*_QUICK, *writing])}
    spark = spark_session("archives", delta=True, settings=options)
    gateway = SparkContext._gateway
    stream = spark.readStream.format("rate").load()
    rows = stream.selectExpr("from_json('{\"a\": 1}', 'a INT') AS a", "value")
    writer = rows.writeStream.foreachBatch(lambda frame, _: frame.toArrow())
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination(_SECONDS)
    table = str(folder / "table")
    spark.range(3).mapInArrow(lambda rows: rows, "id BIGINT").write.format("delta").save(table)
    counts = spark.read.format("delta").load(table).groupBy("id").count().orderBy("id")
    counts.select("id").write.format("delta").mode("append").save(table)
    spark.stop()
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
