"""Under spark-submit, with executors that are processes of their own, of which one is killed."""

import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer

from apps.local import jars, jvm
from apps.local.home import ROOT, VENV
from apps.local.process import tail
from tests import quick_spark
from tests.conftest import BrokerAddress
from tests.spark.live_process import LiveProcess, records, rows

pytestmark = pytest.mark.integration

STREAMS, EACH = 20, 30
_SETTINGS = {
    **quick_spark.SETTINGS,
    "spark.executor.extraJavaOptions": quick_spark.SETTINGS["spark.driver.extraJavaOptions"],
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}
TOLD_TO_END = 128 + signal.SIGTERM
"""The status of any JVM that got the signal."""


def executors(driver: int) -> list[int]:
    """The process ids of a driver's executors."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True)
    found = (line.split(None, 2) for line in listed.stdout.splitlines())
    return [
        int(pid)
        for pid, parent, command in found
        if int(parent) == driver and "CoarseGrainedExecutorBackend" in command
    ]


def test_the_same_comes_out_when_an_executor_is_killed(
    broker: BrokerAddress,
    unique: Callable[[str], str],
    create_topics: Callable[[dict[str, int]], None],
    tmp_path: Path,
) -> None:
    prefix = unique("submitted")
    create_topics({f"{prefix}.in": 2})

    def send(first: int, last: int) -> None:
        """Events of all streams, each pair of them the wrong way round."""
        producer = Producer({"bootstrap.servers": broker.address, "partitioner": "murmur2_random"})
        for n in range(first, last + 1):
            for stream in range(STREAMS):
                value = orjson.dumps({"n": n + 1 if n % 2 else n - 1})
                producer.produce(f"{prefix}.in", value, f"s{stream}".encode())
        assert producer.flush(30) == 0

    def missing(count: int) -> int:
        return max(0, count - len(records(broker.address, f"{prefix}.ledger")))

    live = LiveProcess(
        tmp_path,
        broker.address,
        "tests.spark.ledger:topology",
        LEDGER=prefix,
        PYTHONPATH=str(ROOT),
        **jvm.spark_env(),
    )
    live.launcher = [
        *(str(VENV / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]"),
        *(
            "--jars",
            jars.spark_jars(),
            *quick_spark.conf(_SETTINGS),
            str(ROOT / "apps" / "live.py"),
        ),
    ]
    send(1, EACH // 2)
    try:
        live.start("--store", f"sqlite:///{live.store}", "--topics")
        live.wait(partial(missing, 1))
        assert live.process is not None
        before = executors(live.process.pid)
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        send(EACH // 2 + 1, EACH)
        live.wait(partial(missing, STREAMS * EACH))
        assert live.end(signal.SIGTERM) == TOLD_TO_END
    finally:
        live.close()
    # It was the JVM's signal, and the job ended before the JVM did.
    assert "live: stopped" in live.log.read_text(), tail(live.log, 60)

    found: dict[str, list[int]] = defaultdict(list)
    for record in records(broker.address, f"{prefix}.ledger"):
        body = orjson.loads(record.value() or b"")
        found[body["stream"]].append(body["sequence"])
    assert found == {f"s{n}": list(range(1, EACH + 1)) for n in range(STREAMS)}
    total = EACH * (EACH + 1) // 2
    assert rows(live.store, "ledger") == sorted(
        ((f"s{n}", total) for n in range(STREAMS)), key=repr
    )
