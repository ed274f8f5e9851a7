"""The materializer on a real broker and Spark: killed, restarted, robbed of its checkpoint."""

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from apps.local.home import ROOT
from apps.local.process import spawn, tail
from tests.conftest import BrokerAddress

pytestmark = pytest.mark.integration

PARTITIONS = 2
STREAMS = 40
PATIENCE = 120.0


class Views:
    """Writes output records in transactions, and folds the committed ones into plain tables."""

    def __init__(self, broker: str, topic: str) -> None:
        self.topic = topic
        self.producer = Producer(
            {"bootstrap.servers": broker, "transactional.id": topic, "linger.ms": 5}
        )
        self.producer.init_transactions(30)
        self.sequences = [0] * STREAMS
        self.rows: dict[str, tuple[int, str | None, str | None]] = {}
        self.sent: list[tuple[int, bytes]] = []
        self.committed = 0

    def write(self, transactions: int, size: int = 100) -> None:
        """Commit that many transactions; abort another one after each third."""
        for number in range(transactions):
            self._transaction(size, commit=True)
            if number % 3 == 0:
                self._transaction(size // 4, commit=False)

    def _transaction(self, size: int, commit: bool) -> None:
        sequences, rows = list(self.sequences), dict(self.rows)
        self.producer.begin_transaction()
        for at in range(size):
            if commit and self.sent and at % 17 == 5:
                self._produce(*self.sent[-1 - at % len(self.sent) % 50])  # an old record again
                continue
            stream = (self.committed * 7 + at) % STREAMS
            sequences[stream] += 1
            sequence = sequences[stream]
            name = f"s{stream}"
            key = {"stream": name}
            changes: list[Any]
            if sequence % 10 == 9:
                changes = [{"op": "delete", "table": "board", "key": key}]
                rows.pop(name, None)
            else:
                column = "odd" if sequence % 2 else "even"
                text = f"{sequence} {'committed' if commit else 'aborted'}"
                values = {"last": sequence, column: text}
                changes = [{"op": "upsert", "table": "board", "key": key, "values": values}]
                _, odd, even = rows.get(name, (0, None, None))
                rows[name] = (sequence, text, even) if sequence % 2 else (sequence, odd, text)
            body = {"view": "board", "stream": name, "sequence": sequence, "changes": changes}
            self._produce(stream % PARTITIONS, orjson.dumps(body))
            if commit:
                self.sent.append((stream % PARTITIONS, orjson.dumps(body)))
        self.producer.flush(30)
        if commit:
            self.producer.commit_transaction(30)
            self.sequences, self.rows = sequences, rows
            self.committed += size
        else:
            self.producer.abort_transaction(30)

    def _produce(self, partition: int, body: bytes) -> None:
        self.producer.produce(self.topic, body, partition=partition)


class Materializer:
    """A materializer process into a read store of its own."""

    def __init__(self, folder: Path, broker: str) -> None:
        self.folder = folder
        self.broker = broker
        self.store = folder / "read.db"
        self.checkpoint = folder / "checkpoint"
        self.log = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, topics: str, *options: str) -> None:
        command = [sys.executable, "-m", "apps.materializer", "--broker", self.broker]
        command += ["--store", f"sqlite:///{self.store}", "--checkpoint", str(self.checkpoint)]
        with self.log.open("ab") as output:
            self.process = spawn([*command, "--topics", topics, *options], output=output, cwd=ROOT)

    def end(self, number: signal.Signals) -> int:
        """Send a signal; return the exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.exit_status()

    def exit_status(self) -> int:
        assert self.process is not None
        return self.process.wait(60)

    def applied(self) -> int:
        """How many records have ended in the store, duplicates and dead ones too."""
        sums = self.select("SELECT sum(applied + duplicates + dead) FROM _positions")
        return int(sums[0][0] or 0) if sums else 0

    def select(self, sql: str) -> list[Any]:
        if self.store.exists():
            with (
                suppress(sqlite3.OperationalError),
                closing(sqlite3.connect(self.store, timeout=10)) as connection,
            ):
                return connection.execute(sql).fetchall()
        return []

    def wait_for(self, applied: int) -> None:
        until = time.monotonic() + PATIENCE
        while self.applied() < applied:
            running = self.process is not None and self.process.poll() is None
            assert running, tail(self.log, 40)
            assert time.monotonic() < until, f"{self.applied()} of {applied}\n{tail(self.log, 40)}"
            time.sleep(0.05)


@pytest.fixture
def materializer(tmp_path: Path, broker: BrokerAddress) -> Iterator[Materializer]:
    made = Materializer(tmp_path, broker.address)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def board(materializer: Materializer) -> dict[str, tuple[Any, ...]]:
    sql = 'SELECT stream, "last", odd, even FROM board'
    return {stream: tuple(rest) for stream, *rest in materializer.select(sql)}


def test_kills_and_a_lost_checkpoint_leave_the_tables_exactly_right(
    materializer: Materializer,
    topic: Callable[..., str],
    broker: BrokerAddress,
) -> None:
    views = Views(broker.address, topic("board", PARTITIONS))
    views.write(60)
    small = ("--max-rows-per-trigger", "300")

    materializer.start(views.topic, *small)
    materializer.wait_for(1_000)
    assert materializer.end(signal.SIGKILL) == -signal.SIGKILL
    first = materializer.applied()
    assert first < views.committed, "all was applied before it was killed"

    materializer.start(views.topic, *small)
    materializer.wait_for(first + 1_000)
    assert materializer.end(signal.SIGKILL) == -signal.SIGKILL
    assert materializer.applied() < views.committed, "all was applied before it was killed"

    # Without a checkpoint all is read again, batches are numbered from 0 again, and more comes.
    (materializer.checkpoint).rename(materializer.folder / "lost")
    views.write(5)
    materializer.start(views.topic)
    materializer.wait_for(views.committed)
    views.write(3)
    materializer.wait_for(views.committed)
    assert materializer.end(signal.SIGTERM) == 0, tail(materializer.log, 40)

    assert materializer.applied() == views.committed
    assert views.rows
    assert board(materializer) == views.rows
    fences = dict(materializer.select("SELECT stream, sequence FROM _progress"))
    assert fences == {f"s{stream}": last for stream, last in enumerate(views.sequences)}


def test_topics_are_waited_for_and_bad_records_set_aside(
    materializer: Materializer,
    unique: Callable[[str], str],
    create_topics: Callable[[dict[str, int]], None],
    broker: BrokerAddress,
) -> None:
    one, other = unique("one"), unique("other")
    create_topics({one: PARTITIONS})
    views = Views(broker.address, one)
    views.write(2)
    materializer.start(f"{one},{other}")
    materializer.wait_for(views.committed)

    create_topics({other: 1})
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce(other, b"no JSON")
    good = {"view": "v", "stream": "s", "sequence": 1, "changes": []}
    producer.produce(other, orjson.dumps(good))
    producer.flush(30)
    materializer.wait_for(views.committed + 2)
    assert board(materializer) == views.rows
    ((*dead, reason),) = materializer.select(
        'SELECT topic, partition, "offset", value, reason FROM _dead'
    )
    assert dead == [other, 0, 0, b"no JSON"]
    assert "not JSON" in reason
    assert materializer.end(signal.SIGINT) == 0, tail(materializer.log, 40)
    assert f"waiting for topics that do not exist yet: {other}" in materializer.log.read_text()

    # A checkpoint whose read store is gone is not gone on with: rows would be missing.
    materializer.store.unlink()
    materializer.start(one)
    assert materializer.exit_status() == 1
    assert "ahead of the read store" in materializer.log.read_text()
