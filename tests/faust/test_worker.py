"""A worker on the real broker: its command line, bad input, gaps, and errors it must name."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from apps.soak.check import read
from tests.conftest import BrokerAddress

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Emit, Inspector, Topology, Upsert, key, skip
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream=key(), sequence="seq", kind="kind"), keyed=True,
    partitions=int(os.environ.get("PARTITIONS", "2")),
)

@topology.view("board", of=source, gap=skip(after=float(os.environ.get("AFTER", "2"))))
def board(event, state):
    state["seen"] = state.get("seen", 0) + 1
    if event.kind == "Boom":
        raise ValueError("boom")
    yield Upsert("board", key={"id": event.stream}, values={"seq": event.sequence, **state})

app = compile(topology, group=prefix, session_timeout=6)
"""


class Worker:
    """A worker of the app above, with its topics."""

    def __init__(self, broker: str, prefix: str, folder: Path, partitions: int = 2) -> None:
        self.broker, self.prefix, self.folder = broker, prefix, folder
        (folder / "app.py").write_text(APP)
        admin = AdminClient({"bootstrap.servers": broker})
        for made in admin.create_topics([NewTopic(f"{prefix}.in", partitions, 1)]).values():
            made.result()
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *words: str, **environment: str) -> list[str]:
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.folder), *sys.path]),
            "PREFIX": self.prefix,
            "SEQUITUR_BROKER": self.broker,
            "SEQUITUR_DATADIR": str(self.folder / "data"),
            "SEQUITUR_INSTANCE": "one",
            **environment,
        }
        return [sys.executable, "-m", "faust", "-A", "app", *words]

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = self.command(*words, **environment)
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=90
        )

    def start(self, after: int = 2) -> None:
        command = self.command("worker", "-l", "info", "--without-web", AFTER=str(after))
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def end(self, how: int) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        status = self.process.wait(60)
        self.process = None
        return status

    def send(self, *messages: tuple[bytes | None, bytes | None]) -> None:
        producer = Producer({"bootstrap.servers": self.broker, "partitioner": "murmur2_random"})
        for key, value in messages:
            producer.produce(f"{self.prefix}.in", value, key)
        producer.flush()

    def wait(self, topic: str, count: int, seconds: float = 60) -> list[Message]:
        """The records of a topic, once there are so many."""
        until = time.monotonic() + seconds
        while True:
            try:
                found = list(read(self.broker, f"{self.prefix}.{topic}"))
            except KeyError:
                found = []
            if len(found) >= count or time.monotonic() > until:
                assert len(found) == count, (self.folder / "log").read_text()[-4000:]
                return found
            assert self.process is None or self.process.poll() is None
            time.sleep(0.3)


@pytest.fixture
def worker(broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Worker]:
    made = Worker(broker.address, unique("worker"), tmp_path)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait()


def event(stream: str, seq: object, kind: str = "Ok") -> tuple[bytes, bytes]:
    return stream.encode(), orjson.dumps({"seq": seq, "kind": kind})


def sequences(records: list[Message]) -> list[int]:
    return [orjson.loads(record.value() or b"")["sequence"] for record in records]


def test_agents_and_tables_have_stable_names(worker: Worker) -> None:
    agents = worker.run("agents")
    assert f"@{worker.prefix}.view.board" in agents.stdout, agents.stderr
    tables = worker.run("tables")
    assert "board" in tables.stdout


def test_bad_input_is_counted_and_crashes_nothing(worker: Worker) -> None:
    deep = b"[" * 100_000
    bad: list[tuple[bytes | None, bytes | None]] = [
        (b"a", b"\xff\xfe\x00"), (b"a", b""), (b"a", None), (b"a", deep), (None, b'{"seq": 1}'),
        (b"\xff", b'{"seq": 1, "kind": "Ok"}'), (b"a", b"7"), (b"a", b'{"seq": "x", "kind": 1}'),
        (b"a", b'{"seq": null, "kind": 1}'), (b"a", b'{"seq": 0, "kind": "Ok"}'),
        (b"a", b'{"seq": 1e400, "kind": 1}'), (b"a", b'{"seq": 99999999999999999999, "kind": 1}'),
        (b"a", b'{"seq": 1, "kind": {}}'), (b"a", b"x" * 900_000),
    ]  # fmt: skip
    worker.start()
    worker.send(*bad, event("a", 1), event("a", 2, "Boom"), event("a", "3"))
    assert sequences(worker.wait("board", 2)) == [1, 3]
    malformed = worker.wait("malformed", len(bad))
    assert all(dict(record.headers() or ())["sequitur-reason"] for record in malformed)
    failure = orjson.loads(worker.wait("errors", 1)[0].value() or b"")
    assert (failure["stream"], failure["sequence"], failure["done"]) == ("a", 2, "advance")
    assert "ValueError: boom" in failure["traceback"]
    # What the failed event did to the stream's state is undone.
    assert orjson.loads(worker.wait("board", 2)[1].value() or b"")["changes"][0]["values"] == {
        "seq": 3,
        "seen": 2,
    }
    assert worker.end(signal.SIGTERM) == 0


def test_a_gap_keeps_its_deadline_over_a_kill_and_what_comes_later_is_late(worker: Worker) -> None:
    worker.start(after=8)
    worker.send(event("a", 1), event("a", 3))
    assert sequences(worker.wait("board", 1)) == [1]
    worker.end(signal.SIGKILL)
    worker.start(after=8)
    assert sequences(worker.wait("board", 2)) == [1, 3]
    worker.send(event("a", 2), event("a", 2), event("a", 4))
    assert sequences(worker.wait("board", 3)) == [1, 3, 4]
    late = worker.wait("late", 1)[0]
    assert dict(late.headers() or ()) == {"view": b"board", "sequence": b"2"}


def test_a_gap_is_not_given_up_for_what_came_while_the_worker_was_away(worker: Worker) -> None:
    worker.start(after=8)
    worker.send(event("a", 1), event("a", 3))
    worker.wait("board", 1)
    worker.end(signal.SIGKILL)
    worker.send(*(event(f"s{n % 50}", n // 50 + 1) for n in range(20_000)))
    worker.send(event("a", 2))
    time.sleep(8)
    worker.start(after=8)
    found = worker.wait("board", 20_003, 90)
    assert sequences([r for r in found if r.key() == b"a"]) == [1, 2, 3]


def test_a_topic_with_other_partitions_is_named_with_the_remedy(worker: Worker) -> None:
    refused = worker.run("worker", "--without-web", PARTITIONS="3")
    assert refused.returncode != 0
    text = refused.stdout + refused.stderr
    assert f"topic '{worker.prefix}.in' has 2 partitions" in text
    assert "set source(partitions=2)" in text
