"""A worker, a materializer and rebuilds of one topology, as processes; the fold of its input."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from sequitur.local.process import spawn, tail
from soak.ended import ended, run, stacks
from tests.apps.sequitur.rebuild.stores import Store
from tests.conftest import make_topics
from tests.topology.faust.worker_process import Worker

PATIENCE = 480.0

APP = """
import os

from topology import Delete, Emit, Inspector, Table, Topology, Upsert, skip, spill
from topology.faust import compile

PREFIX, LABEL = os.environ["PREFIX"], os.environ.get("LABEL", "old")
topology = Topology(PREFIX)
topology.source(
    f"{PREFIX}.in", inspector=Inspector(stream="s", sequence="n"), name="in", partitions=2
)
LEDGER = Table("ledger", key={"stream": str}, columns={"n": int, "total": int, "label": str})
PAGES = Table("pages", key={"stream": str, "page": int}, columns={"n": int})


@topology.view("ledger", of="in", gap=skip(after=2), full=spill(), tables=[LEDGER, PAGES])
def ledger(event, state):
    state["total"] = (state.get("total", 0) * 31 + event.content["amount"]) % 1_000_003
    values = {"n": event.sequence, "total": state["total"], "label": LABEL}
    yield Upsert("ledger", key={"stream": event.stream}, values=values)
    if LABEL == "old":
        yield Upsert("pages", key={"stream": event.stream, "page": -1}, values={"n": 0})
    if event.sequence % 10 == 0:
        yield Emit(f"{PREFIX}.tens", event.stream, {"n": event.sequence})
    page = {"stream": event.stream, "page": event.sequence % 3}
    if event.sequence % 7:
        yield Upsert("pages", key=page, values={"n": event.sequence})
    else:
        yield Delete("pages", key=page)


app = compile(topology, group=PREFIX)
"""


class Input:
    """Events of some streams: overtaken, twice, some never; and the rows that they come to."""

    def __init__(self, seed: int, streams: int = 30) -> None:
        self._chance = random.Random(seed)
        self._last = dict.fromkeys((f"s{n}" for n in range(streams)), 0)
        self._amounts: dict[str, dict[int, int]] = defaultdict(dict)
        self.sent = 0

    def make(self, events: int, lost: float = 0.0) -> list[tuple[bytes, bytes]]:
        """The next messages as they arrive, (key, value)."""
        chance = self._chance
        found: list[tuple[float, bytes, bytes]] = []
        for at in range(events):
            stream = chance.choice(list(self._last))
            self._last[stream] += 1
            n, amount = self._last[stream], chance.randrange(1000)
            # The last one of a stream is not lost, or nobody would know.
            if chance.random() < lost:
                continue
            self._amounts[stream][n] = amount
            value = orjson.dumps({"s": stream, "n": n, "amount": amount})
            key = b"%d" % chance.randrange(50)
            late = chance.randrange(200) if chance.random() < 0.2 else 0
            found.append((at + late, key, value))
            if chance.random() < 0.1:
                found.append((at + chance.randrange(200), key, value))
        found.sort(key=lambda each: each[0])
        self.sent += len(found)
        return [(key, value) for _, key, value in found]

    def ledger(self) -> dict[str, tuple[int, int]]:
        """Stream → (last sequence, total)."""
        found: dict[str, tuple[int, int]] = {}
        for stream, amounts in self._amounts.items():
            total = 0
            for n in sorted(amounts):
                total = (total * 31 + amounts[n]) % 1_000_003
            found[stream] = max(amounts), total
        return found

    def pages(self) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        for stream, amounts in self._amounts.items():
            for n in sorted(amounts):
                if n % 7:
                    found[stream, n % 3] = n
                else:
                    found.pop((stream, n % 3), None)
        return found


class Living(Worker):
    """The processes, and the read store."""

    def __init__(self, broker: str, prefix: str, folder: Path, store: Store) -> None:
        super().__init__(broker, prefix, folder, APP)
        make_topics(broker, NewTopic(f"{prefix}.tens", 1, 1))
        self.store = store
        self.url = store.url
        self._producer = Producer(
            {
                "bootstrap.servers": broker,
                "transactional.id": prefix,
                "partitioner": "murmur2_random",
            }
        )
        self._producer.init_transactions(120)
        self._materializer: subprocess.Popen[bytes] | None = None
        self._rebuilds: list[subprocess.Popen[bytes]] = []

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        path = os.pathsep.join([str(self.folder), os.environ["PYTHONPATH"]])
        return {
            **os.environ,
            "PYTHONPATH": path,
            "PREFIX": self.prefix,
            "SEQUITUR_BROKER": self.broker,
            "SEQUITUR_DATADIR": str(self.folder / "unused"),
            **more,
        }

    def materialize(self) -> None:
        command = [sys.executable, "-m", "sequitur", "materialize", "--broker", self.broker]
        command += ["--read-store", self.url, "--checkpoint", str(self.folder / "checkpoint")]
        with (self.folder / "materializer.log").open("ab") as output:
            self._materializer = spawn(
                [*command, "--topology", "app:topology", "--trigger-interval", "500ms"],
                output=output,
                cwd=self.folder,
                env=self._environment({}),
            )

    def begin(self, *words: str, log: str = "rebuild", **more: str) -> subprocess.Popen[bytes]:
        """Start a rebuild."""
        command = [
            sys.executable,
            "-m",
            "sequitur",
            "rebuild",
            "run",
            "--app",
            "app",
            "--view",
            "ledger",
        ]
        command += ["--read-store", self.url, "--work", str(self.folder / "work"), "--cores", "1"]
        command += ["--slices", "2", *words]
        with self.log(log).open("ab") as output:
            process = spawn(
                command,
                env=self._environment({"LABEL": "new", **more}),
                cwd=self.folder,
                output=output,
            )
        self._rebuilds.append(process)
        return process

    def rebuild(self, *words: str, log: str = "rebuild", **more: str) -> str:
        """Rebuild to the end; returns the log."""
        process = self.begin(*words, log=log, **more)
        assert ended(process, PATIENCE, self.log(log)) == 0, tail(self.log(log), 60)
        return self.log(log).read_text()

    def until(self, log: str, text: str, process: subprocess.Popen[bytes]) -> None:
        """Wait until a rebuild has said something."""
        deadline = time.monotonic() + PATIENCE
        while text not in (self.log(log).read_text() if self.log(log).exists() else ""):
            assert process.poll() is None, tail(self.log(log), 60)
            if time.monotonic() > deadline:
                pytest.fail(stacks(process, self.log(log)))
            time.sleep(0.02)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def command_line(self, *words: str) -> None:
        command = [sys.executable, "-m", "sequitur", "rebuild", *words]
        done = run(command, PATIENCE, self.folder, self._environment({}))
        assert done.returncode == 0, done.stderr

    # -- the read store

    def select(self, sql: str) -> list[Any]:
        """The rows that a statement finds, none where there is no such table."""
        return self.store.select(sql)

    def ledger(self, table: str = "ledger") -> dict[str, tuple[int, int]]:
        return {
            s: (n, total) for s, n, total in self.select(f"SELECT stream, n, total FROM {table}")
        }

    def pages(self) -> dict[tuple[str, int], int]:
        return {(s, page): n for s, page, n in self.select("SELECT stream, page, n FROM pages")}

    def labels(self, table: str = "ledger") -> set[str]:
        return {label for (label,) in self.select(f"SELECT DISTINCT label FROM {table}")}

    def tens(self) -> Counter[tuple[bytes | None, bytes | None]]:
        """(key, value) → how often the handler has sent it."""
        return Counter((record.key(), record.value()) for record in self.records("tens"))

    def wait_for(self, ledger: Mapping[str, tuple[int, int]]) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.ledger() != ledger:
            for process in (self.process, self._materializer):
                assert process is None or process.poll() is None, tail(self.log("materializer"), 40)
            if time.monotonic() > deadline:
                said = stacks(self.process, self.log_file)
                said += stacks(self._materializer, self.log("materializer"))
                pytest.fail(f"{set(self.ledger().items()) ^ set(ledger.items())}{said}")
            time.sleep(0.1)

    def stop(self) -> None:
        for process in (self.process, self._materializer, *self._rebuilds):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()

    def send(
        self, *messages: tuple[bytes | None, bytes | None], topic: str = "in", when: int = 0
    ) -> None:
        """All at once: no gap between two of them is given up because the rest comes later."""
        self._producer.begin_transaction()
        for key, value in messages:
            self._producer.produce(f"{self.prefix}.{topic}", value, key, timestamp=when)
        self._producer.commit_transaction(120)

    def restart(self, label: str) -> None:
        """Deploy another handler."""
        self.end(signal.SIGTERM)
        self.start(LABEL=label)


class Load(threading.Thread):
    """Sends more and more, until it is told to end."""

    def __init__(self, living: Living, events: Input, size: int = 100, pause: float = 1.5) -> None:
        super().__init__(daemon=True)
        self._living, self._events, self._size, self._pause = living, events, size, pause
        self._ended = threading.Event()
        self.pieces = 0

    def run(self) -> None:
        while not self._ended.wait(self._pause):
            self._living.send(*self._events.make(self._size))
            self.pieces += 1

    def end(self) -> int:
        """Returns how many pieces were sent."""
        self._ended.set()
        self.join()
        return self.pieces
