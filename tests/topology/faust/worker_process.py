"""A worker process for tests: started, fed, killed, and its topics read."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.cimpl import NewTopic

from soak.ended import ended, stacks
from tests.conftest import make_topics
from tests.forked import Forked, ForkedWorker
from tests.topic_records import topic_records


class Worker:
    """A worker of an app of one file, with its topics."""

    def __init__(
        self, broker: str, prefix: str, folder: Path, app: str, partitions: int = 2
    ) -> None:
        self.broker, self.prefix, self.folder = broker, prefix, folder
        (folder / "app.py").write_text(app)
        make_topics(broker, NewTopic(f"{prefix}.in", partitions, 1))
        self.process: Any = None
        """A ForkedWorker, or a Popen where a test starts it by itself."""
        self.instance, self.log_file = "one", folder / "log"

    def another(self, instance: str) -> "Worker":
        """One more worker of the same app, with a data folder of its own."""
        found = copy(self)
        found.process, found.instance, found.log_file = (
            None,
            instance,
            self.folder / f"log-{instance}",
        )
        return found

    def command(self, *words: str, **environment: str) -> list[str]:
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.folder), *sys.path]),
            "PREFIX": self.prefix,
            "SEQUITUR_BROKER": self.broker,
            "SEQUITUR_DATADIR": str(self.folder / f"data-{self.instance}"),
            "SEQUITUR_INSTANCE": self.instance,
            **environment,
        }
        return [sys.executable, "-m", "faust", "-A", "app", *words]

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.fork(*words, **environment).ended(180)

    def fork(self, *words: str, **environment: str) -> Forked:
        """Start a command, which `run` waits for."""
        _, _, *command = self.command(*words, **environment)
        return Forked(command, self.environment)

    def start(self, *more: str, **environment: str) -> None:
        words = ("worker", "-l", "info", "--without-web", *more)
        _, _, *command = self.command(*words, **environment)
        self.process = ForkedWorker(command, self.environment, self.log_file)

    def end(self, how: int) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        status = ended(self.process, 120, self.log_file)
        self.process = None
        return status

    def kill(self) -> None:
        """Whatever it is doing, if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def send(
        self, *messages: tuple[bytes | None, bytes | None], topic: str = "in", when: int = 0
    ) -> None:
        """Send messages, keys first. when: their time (ms), 0 for now."""
        producer = Producer({"bootstrap.servers": self.broker, "partitioner": "murmur2_random"})
        for key, value in messages:
            producer.produce(f"{self.prefix}.{topic}", value, key, timestamp=when)
        producer.flush()

    def records(self, topic: str) -> list[Message]:
        """The records that a topic has now; none if it is not there."""
        return topic_records(self.broker).of(f"{self.prefix}.{topic}")

    def count(self, topic: str) -> int:
        """How many records a topic has, 0 if it is not there."""
        return len(self.records(topic))

    def wait_until(self, true: Callable[[], bool], seconds: float = 150) -> None:
        """Wait until it is so."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                pytest.fail(stacks(self.process, self.log_file))
            time.sleep(0.3)

    def wait(self, topic: str, count: int, seconds: float = 150) -> list[Message]:
        """The records of a topic, once there are so many."""
        until = time.monotonic() + seconds
        whole = f"{self.prefix}.{topic}"
        while True:
            over = time.monotonic() > until
            there = over or topic_records(self.broker).may_have(whole, count)
            found = self.records(topic) if there else []
            if len(found) >= count or over:
                if len(found) != count:
                    said = stacks(self.process, self.log_file)
                    pytest.fail(f"{len(found)} of {count} records{said}")
                return found
            assert self.process is None or self.process.poll() is None
            time.sleep(0.3)
