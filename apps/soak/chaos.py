"""Run a soak: fill the input, run workers, do them harm, and wait until all input is processed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, prlimit
from threading import Thread
from typing import IO

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from sequitur.cli.signals import check_interrupted
from sequitur.local.process import spawn
from soak import VIEWS
from soak.clock import set_clock
from soak.disk import SmallDisk
from soak.ended import ended, stacks
from soak.worked import WORKED
from soak.workload import Workload
from topology.engine.state.positions import decode_positions
from topology.engine.state.rows import COUNTS, POSITIONS
from topology.model.counts import decode_counts

SESSION = 6
"""Seconds after which the group takes a worker for dead."""
REDRIVES = 10
"""So often what is parked is redriven; what fails by then does so for good."""
_TOLD = 20_000
"""Bytes of the log of a worker that ended by itself that an error quotes."""


@dataclass
class Soak:
    """A soak on a broker, with a name of its own and a folder for its workers' data and logs."""

    broker: str
    prefix: str
    folder: Path
    guarantee: str = "exactly_once"
    store: str = "rocksdb"
    worked: bool = False
    """Whether views with workers are among the views."""
    ring: int = 16
    """Slots of the view whose events come again."""
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    began: dict[str, int] = field(default_factory=dict)
    disks: dict[str, SmallDisk] = field(default_factory=dict)
    _logs: dict[str, Thread] = field(default_factory=dict)
    _positions: dict[int, int] = field(default_factory=dict)
    _away: dict[tuple[str, int], int] = field(default_factory=dict)
    _environment: dict[str, str] = field(default_factory=dict)

    @property
    def views(self) -> tuple[str, ...]:
        return VIEWS + WORKED if self.worked else VIEWS

    @property
    def _client(self) -> dict[str, str | int | float | bool]:
        """What all clients are told: nothing of a broker that is away, which is meant."""
        return {"bootstrap.servers": self.broker, "log_level": 0}

    def fill(self, work: Workload) -> None:
        """Make the input topic and write all of the input."""
        topic = f"{self.prefix}.in"
        admin = AdminClient(self._client)
        for made in admin.create_topics([NewTopic(topic, 4, 1)]).values():
            made.result()
        self.send(work.messages)

    def send(self, messages: Sequence[tuple[bytes, bytes]]) -> None:
        """Write (key, value) to the input."""
        topic = f"{self.prefix}.in"
        producer = Producer({**self._client, "linger.ms": 20})
        for at, (key, value) in enumerate(messages):
            producer.produce(topic, value, key)
            if at % 10_000 == 9_999:
                producer.flush()
        producer.flush()

    def start(self, name: str, ahead: float = 0) -> None:
        """Start a worker, or start it again. ahead: seconds that its machine's clock is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.leap(name, ahead)
        environment = {
            **os.environ,
            "PYTHONFAULTHANDLER": "1",  # see soak.ended
            "SOAK": self.prefix,
            "SEQUITUR_BROKER": self.broker,
            "SEQUITUR_DATADIR": str(self.data(name)),
            "SEQUITUR_VIEW_STATE": self.store,
            "SEQUITUR_GUARANTEE": self.guarantee,
            "SEQUITUR_SESSION_TIMEOUT": f"{SESSION}s",
            "SEQUITUR_INSTANCE": name,
            "SOAK_CLOCK": str(self._clock(name)),
            "SOAK_WORKED": "yes" if self.worked else "",
            "SOAK_RING": str(self.ring),
            "SOAK_MENDED": str(self.folder / "mended"),
        }
        self._environment = environment
        command = [sys.executable, "-m", "faust", "-A", "soak", "worker", "-l", "info"]
        log = self.log(name).open("ab", buffering=0)
        self.began[name] = log.tell()
        self.workers[name] = worker = spawn(
            [*command, "--without-web"], env=environment, output=subprocess.PIPE
        )
        # The log is not the worker's own file, so that a worker without a disk can still say so.
        self._logs[name] = Thread(target=_copy, args=(worker.stdout, log), daemon=True)
        self._logs[name].start()

    def leap(self, name: str, seconds: float) -> None:
        """Let a worker's wall clock be so many seconds ahead, until it is started again."""
        set_clock(self._clock(name), seconds)

    def _clock(self, name: str) -> Path:
        return self.folder / f"{name}.clock"

    def data(self, name: str) -> Path:
        """A worker's data folder."""
        return self.folder / name

    def kill(self, name: str) -> None:
        """SIGKILL."""
        worker = self.workers.pop(name, None)
        if worker is not None:
            worker.kill()
            worker.wait()
            self._logs[name].join(5)

    def ready(self, name: str, seconds: float = 150) -> None:
        """Wait until a worker has restored its tables and works. Raises TimeoutError."""
        self.says(name, "Worker ready", seconds)

    def says(self, name: str, text: str, seconds: float = 150) -> None:
        """Wait until a worker's log has a text since its start. Raises TimeoutError."""
        until = time.monotonic() + seconds
        while text.encode() not in self.said(name):
            if time.monotonic() > until:
                raise TimeoutError(f"no {text!r} in {seconds} s in the log of worker {name}")
            time.sleep(0.2)

    def log(self, name: str) -> Path:
        """A worker's log, over all its starts."""
        return self.folder / f"{name}.log"

    def said(self, name: str) -> bytes:
        """A worker's log since its last start."""
        return self.log(name).read_bytes()[self.began[name] :]

    def pause(self, name: str) -> None:
        """SIGSTOP: the group will take the worker for dead, and it will not know."""
        self.workers[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """SIGCONT: a zombie with a step in hand."""
        self.workers[name].send_signal(signal.SIGCONT)

    def fill_disk(self, name: str) -> None:
        """Let the system refuse all that a worker writes to files, as a full disk does."""
        prlimit(self.workers[name].pid, RLIMIT_FSIZE, (0, RLIM_INFINITY))

    def free_disk(self, name: str) -> None:
        """Let it write again."""
        prlimit(self.workers[name].pid, RLIMIT_FSIZE, (RLIM_INFINITY, RLIM_INFINITY))

    def stop(self, name: str) -> int:
        """SIGTERM; returns the exit status. Raises RuntimeError for what does not stop."""
        worker = self.workers.pop(name)
        worker.send_signal(signal.SIGTERM)
        try:
            return ended(worker, 120, self.log(name))
        finally:
            self._logs[name].join(5)

    def stop_all(self) -> dict[str, int]:
        return {name: self.stop(name) for name in list(self.workers)}

    def forget(self, name: str) -> None:
        """Delete a dead worker's data folder."""
        shutil.rmtree(self.data(name), ignore_errors=True)

    def keep(self, name: str) -> None:
        """Keep a copy of a dead worker's data folder, as a backup does."""
        shutil.rmtree(self._kept(name), ignore_errors=True)
        if self.data(name).exists():
            shutil.copytree(self.data(name), self._kept(name))

    def bring_back(self, name: str) -> bool:
        """Give a dead worker the folder back that was kept; whether there was one."""
        if not self._kept(name).exists():
            return False
        self.forget(name)
        shutil.copytree(self._kept(name), self.data(name), dirs_exist_ok=True)
        return True

    def _kept(self, name: str) -> Path:
        return self.folder / f"{name}.kept"

    def no_room(self, name: str) -> None:
        """Put a dead worker's data on a disk that is full. Raises OSError without the right to."""
        disk = SmallDisk(self.data(name))
        disk.mount()
        self.disks[name] = disk

    def room(self, name: str) -> None:
        """Make room on that disk, while the worker runs."""
        self.disks[name].enlarge()

    def compact(self) -> None:
        """Have the changelogs' closed segments compacted at once, and segments closed soon."""
        admin = AdminClient(self._client)
        settings = {
            "segment.ms": "1000",
            "min.cleanable.dirty.ratio": "0.001",
            "max.compaction.lag.ms": "1000",
            "delete.retention.ms": "1000",
        }
        resources = [
            ConfigResource(
                ConfigResource.Type.TOPIC,
                f"{self.prefix}-{view}-changelog",
                incremental_configs=[
                    ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                    for name, value in settings.items()
                ],
            )
            for view in self.views
        ]
        for done in admin.incremental_alter_configs(resources).values():
            done.result()

    def tidy(self) -> None:
        """Delete the topics and the folder, so that what is done takes no room."""
        admin = AdminClient(self._client)
        topics = [t for t in admin.list_topics(timeout=60).topics if t.startswith(self.prefix)]
        for done in admin.delete_topics(topics).values():
            done.result()
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        """Kill what still runs, and let go of the broker."""
        for name in list(self.workers):
            self.kill(name)
        while self.disks:
            self.disks.popitem()[1].unmount()
        for name in ("_changelog", "_consumer"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()

    def lag(self) -> int:
        """Messages that are not processed to the end: unread ones, and those that come again."""
        for _ in range(120):
            with suppress(KafkaException):
                return self._lag()
            time.sleep(0.5)
        return self._lag()

    def _lag(self) -> int:
        consumer, lag = self._consumer, 0
        arrivals = [f"{self.prefix}.{view}.arrivals" for view in WORKED if self.worked]
        for topic in (f"{self.prefix}.in", f"{self.prefix}.in.by-stream", *arrivals):
            known = consumer.list_topics(topic, timeout=60).topics[topic].partitions
            partitions = [TopicPartition(topic, number) for number in known]
            for done in consumer.committed(partitions, timeout=60):
                first, end = consumer.get_watermark_offsets(done, timeout=60)
                lag += end - max(done.offset, first)
                if topic.endswith(".by-stream"):
                    lag += end - max(self._copied(done.partition), first)
        return lag + sum(self._away.values())

    @cached_property
    def _consumer(self) -> Consumer:
        """Asks for committed offsets and ends, and takes part in no group."""
        return Consumer({**self._client, "group.id": self.prefix})

    def _copied(self, partition: int) -> int:
        """The offset that the view that reads apart is at, as its last row says."""
        while found := self._changelog.consume(10_000, 0.05):
            for message in found:
                if message.error() is not None:
                    continue
                topic, number = message.topic() or "", message.partition() or 0
                if message.key() == COUNTS:
                    self._away[topic, number] = decode_counts(message.value()).redelivering
                elif message.key() == POSITIONS and topic.endswith("-copies-changelog"):
                    self._positions[number] = decode_positions(message.value()).input or 0
        return self._positions.get(partition, 0)

    @cached_property
    def _changelog(self) -> Consumer:
        """Reads the changelogs, on and on."""
        consumer = Consumer(
            {
                **self._client,
                "group.id": f"{self.prefix}.lag",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign(
            [
                TopicPartition(topic, number, OFFSET_BEGINNING)
                for topic in (f"{self.prefix}-{view}-changelog" for view in self.views)
                for number in consumer.list_topics(topic, timeout=60).topics[topic].partitions
            ]
        )
        return consumer

    def supervise(self) -> None:
        """Start workers again that found no broker when they started, as whoever runs one would.

        Raises RuntimeError if one ended by itself that was at work.
        """
        check_interrupted()
        for name, worker in list(self.workers.items()):
            if worker.poll() is not None:
                if b"Worker ready" in self.said(name):
                    said = self.said(name)[-_TOLD:].decode(errors="replace")
                    raise RuntimeError(f"worker {name} ended with {worker.returncode}:\n{said}")
                self.kill(name)
                self.start(name)

    def wait(self, seconds: float, done: Callable[[], bool] | None = None) -> None:
        """Wait until all input is processed.

        Raises TimeoutError where it gets no less for so many seconds, RuntimeError if a worker
        ends.
        """
        least, until = self.lag(), time.monotonic() + seconds
        while time.monotonic() < until:
            self.supervise()
            lag = self.lag()
            if lag == 0 and (done is None or done()):
                return
            if lag < least:
                least, until = lag, time.monotonic() + seconds
            time.sleep(0.5)
        lag = self.lag()
        said = "".join(stacks(self.workers.pop(name), self.log(name)) for name in [*self.workers])
        raise TimeoutError(f"{lag} messages are not processed, and no fewer in {seconds} s{said}")

    def redrive(self, seconds: float = 120) -> None:
        """Let handlers fail no longer, and redrive what is parked. Raises TimeoutError."""
        (self.folder / "mended").touch()
        for _ in range(REDRIVES):
            if not self._command("parked"):
                return
            self._command("redrive", "--all", "--limit", "100000")
            self.wait(seconds)
        raise TimeoutError(f"streams are still parked after {REDRIVES} redrives")

    def _command(self, *words: str) -> int:
        command = [sys.executable, "-m", "faust", "-A", "soak", *words]
        with self.log("commands").open("ab") as log:
            return subprocess.call(command, env=self._environment, stdout=log, stderr=log)


def let_work(soak: Soak, messages: int, seconds: float) -> None:
    """Let the workers process that many messages more, or work that long."""
    until, target = time.monotonic() + seconds, soak.lag() - messages
    while time.monotonic() < until and soak.lag() > max(target, 0):
        time.sleep(0.1)


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    with source, target:
        while chunk := os.read(source.fileno(), 1 << 16):
            target.write(chunk)
