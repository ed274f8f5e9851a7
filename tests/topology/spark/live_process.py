"""A process of `sequitur.live` for tests: started, killed, and looked at from outside."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from sequitur.local import jars, jvm
from sequitur.local.home import ROOT, VENV
from sequitur.local.process import spawn, tail
from soak.ended import ended, stacks
from tests import quick_spark
from tests.topic_records import topic_records

PATIENCE = 240.0
TOLD_TO_END = 128 + signal.SIGTERM
"""The status of a JVM that got the signal, whatever it did then."""
_SUBMITTED = {
    **quick_spark.SETTINGS,
    "spark.executor.extraJavaOptions": quick_spark.SETTINGS["spark.driver.extraJavaOptions"],
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}


class LiveProcess:
    """Runs one topology with a checkpoint and a read store of its own.

    launcher: what starts it.
    """

    launcher: Sequence[str] = (sys.executable, "-m", "sequitur", "live")

    def __init__(self, folder: Path, broker: str, topology: str, **environment: str) -> None:
        self.broker, self.topology = broker, topology
        self.store, self.checkpoint = folder / "live.db", folder / "live-checkpoint"
        self.log = folder / "live.log"
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None

    def be_submitted(self) -> None:
        """From the next start on it is started by spark-submit, with two executor processes."""
        self.environment |= {**jvm.spark_env(), "PYTHONPATH": os.environ["PYTHONPATH"]}
        self.launcher = [
            *(str(VENV / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]"),
            *("--jars", jars.spark_jars(), *quick_spark.conf(_SUBMITTED)),
            str(ROOT / "apps/sequitur/__main__.py"),
            "live",
        ]

    def executors(self) -> list[int]:
        """The process ids of its executors."""
        assert self.process is not None
        words = ["ps", "-ww", "-eo", "pid=,ppid=,args="]
        listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        found = (line.split(None, 2) for line in listed.splitlines())
        return [
            int(pid)
            for pid, parent, command in found
            if int(parent) == self.process.pid and "CoarseGrainedExecutorBackend" in command
        ]

    def start(self, *options: str) -> None:
        command = [*self.launcher, "--broker", self.broker]
        command += ["--topology", self.topology, "--checkpoint", str(self.checkpoint)]
        with self.log.open("ab") as output:
            self.process = spawn(
                [*command, *options],
                output=output,
                cwd=ROOT,
                env={**os.environ, **self.environment},
            )

    def end(self, number: signal.Signals) -> int:
        """Send a signal; return the exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return ended(self.process, 240, self.log)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def wait(self, missing: Callable[[], Any]) -> None:
        """Wait until nothing is missing; fail with what is, and the log, where it does not come."""
        until = time.monotonic() + PATIENCE
        while left := missing():
            running = self.process is not None and self.process.poll() is None
            assert running, tail(self.log, 60)
            if time.monotonic() > until:
                pytest.fail(f"{left}{stacks(self.process, self.log)}")
            time.sleep(0.2)


def records(broker: str, topic: str) -> list[Message]:
    """The committed records of a topic, none if it is not there."""
    return topic_records(broker).of(topic)


def rows(store: Path, table: str) -> list[Any]:
    """The rows of a table, none if it is not there."""
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(store, timeout=60)) as connection,
    ):
        columns = [name for _, name, *_ in connection.execute(f'PRAGMA table_info("{table}")')]
        names = ", ".join(f'"{name}"' for name in sorted(columns))
        return sorted(connection.execute(f'SELECT {names} FROM "{table}"').fetchall(), key=repr)
    return []
