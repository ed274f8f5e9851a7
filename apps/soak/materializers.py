"""A materializer that is harmed: killed at steps of its batches, and robbed of its checkpoint."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from sequitur.local.home import ROOT
from sequitur.local.process import spawn, tail
from soak.cut_off import DELTA_STEPS, SQL_STEPS, STAGED_STEPS
from soak.ended import ended, stacks

PATIENCE = 300.0
"""Seconds for what a busy machine may need to start Spark and work a batch off."""
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Its JVM is started often and does little: compiling well would cost more than it gains."""


class Materializer:
    """A materializer process into the read store at `url`."""

    def __init__(self, folder: Path, broker: str, url: str, topic: str) -> None:
        self.broker = broker
        self.url = url
        self.topic = topic
        self.what: list[str] = []
        """Words of the command line in place of --topics."""
        self.on_executors = False
        """Whether Spark's executors write all batches, into a store that takes them so."""
        self.checkpoint = folder / "checkpoint"
        self.status = folder / "status.json"
        self.log = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def steps(self) -> tuple[str, ...]:
        """The sink's, between any two of which it may be killed."""
        if self.on_executors:
            return STAGED_STEPS
        return DELTA_STEPS if self.url.startswith("delta") else SQL_STEPS

    def start(self, *options: str, cut: tuple[str, str, int] | None = None) -> None:
        """Start it. cut: (step, before or after, which call), at which it kills itself."""
        self.status.unlink(missing_ok=True)
        module = ["sequitur", "materialize"] if cut is None else ["soak.cut_off", *map(str, cut)]
        command = [sys.executable, "-m", *module, "--broker", self.broker, "--read-store", self.url]
        command += self.what or ["--topics", self.topic]
        command += ["--executors-from", "1"] if self.on_executors else []
        command += ["--checkpoint", str(self.checkpoint), "--status", str(self.status)]
        with self.log.open("ab") as output:
            self.process = spawn(
                [*command, *options],
                output=output,
                cwd=ROOT,
                env={**os.environ, "JAVA_TOOL_OPTIONS": _JAVA, "PYTHONFAULTHANDLER": "1"},
            )

    def ended(self) -> int:
        """Wait until it has ended; its exit status."""
        assert self.process is not None
        return ended(self.process, PATIENCE, self.log)

    def end(self, number: signal.Signals) -> int:
        """Send a signal; the exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.ended()

    def kill(self) -> None:
        """End it, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def lose_checkpoint(self) -> None:
        """Delete the checkpoint; all is read again then, in batches that are numbered from 0."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)

    def catch_up(self) -> dict[str, Any]:
        """Wait until all that the topic has is in the store; what the status says then.

        Raises RuntimeError where it ended, TimeoutError where it takes too long.
        """
        ends = _ends(self.broker, self.topic)
        until = time.monotonic() + PATIENCE
        while True:
            status = self._status()
            mine = (p for p in status.get("partitions", ()) if p["topic"] == self.topic)
            at = {p["partition"]: p["next_offset"] or 0 for p in mine}
            if all(at.get(partition, 0) >= end for partition, end in ends.items()):
                return status
            if self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"the materializer ended:\n{tail(self.log, 40)}")
            if time.monotonic() > until:
                raise TimeoutError(f"{at} of {ends}{stacks(self.process, self.log)}")
            time.sleep(0.1)

    def _status(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.status.read_text())
        except OSError:
            return {}
        return found


def _ends(broker: str, topic: str) -> dict[int, int]:
    """Partition → the offset up to which it can be read."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "sequitur-soak-ends"})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
            for number in partitions
        }
    finally:
        consumer.close()
