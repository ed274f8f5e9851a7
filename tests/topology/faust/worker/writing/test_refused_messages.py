"""A message that Kafka refuses fails the event that sends it, and holds up nothing else."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.conftest import BrokerAddress, make_topics
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os, time
from topology import Emit, Inspector, Topology, Upsert
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream="id", sequence="seq"), partitions=1, name="in",
    keyed=True,
)

@topology.view("board", of=source)
def board(event):
    yield Upsert("board", key={"id": event.stream}, values={"seq": event.sequence})

@topology.view("sends", of=source, emits=[prefix + ".small"])
def sends(event):
    what = event.content["what"]
    if what == "large":
        # No two tries send the same.
        yield Emit(prefix + ".small", event.stream, f"{time.time_ns()}" + "x" * 2000)
    elif what == "keyless":
        yield Emit(prefix + ".compact", None, {"n": event.sequence})
    elif what == "nothing":
        yield Emit(prefix + ".compact", None, None)
    elif what == "long":
        yield Emit(prefix + "." + "x" * 200, event.stream, {})
    yield Emit(prefix + ".small", event.stream, {"n": event.sequence})

app = compile(topology, group=prefix, guarantee=os.environ["GUARANTEE"], session_timeout=60)
"""


@pytest.fixture
def worker(broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Worker]:
    made = Worker(broker.address, unique("refused"), tmp_path, APP, partitions=1)
    small = NewTopic(f"{made.prefix}.small", 1, 1, config={"max.message.bytes": "500"})
    compact = NewTopic(f"{made.prefix}.compact", 1, 1, config={"cleanup.policy": "compact"})
    make_topics(broker.address, small, compact)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait()


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_refused_message_fails_its_event_and_no_other(worker: Worker, guarantee: str) -> None:
    worker.start(GUARANTEE=guarantee)
    # What a producer without transactions sends behind a refused batch, the broker takes only as
    # long as it has nothing of that producer.
    worker.send((b"c", b'{"id": "c", "seq": 1, "what": "fine"}'))
    worker.wait("small", 1, 120)
    whats = [*["fine"] * 30, "large", "fine", "keyless", "fine", "nothing", "fine", "large", "fine"]
    for sequence, what in enumerate(whats, 1):
        for stream in ("a", "b"):
            body = {"id": stream, "seq": sequence, "what": what if stream == "a" else "fine"}
            worker.send((stream.encode(), orjson.dumps(body)))
    refused = sum(map(whats.count, ("large", "keyless", "nothing")))
    sent = {("a", n) for n, what in enumerate(whats, 1) if what == "fine"}
    sent |= {("b", n) for n in range(1, len(whats) + 1)} | {("c", 1)}

    def failures() -> list[dict[str, Any]]:
        return [orjson.loads(record.value() or b"") for record in worker.records("errors")]

    worker.wait_until(lambda: len({each["sequence"] for each in failures()}) == refused)
    every = failures()
    if guarantee == "exactly_once":
        assert len(every) == refused
    told = list({each["sequence"]: each for each in every}.values())
    assert {(each["view"], each["stream"]) for each in told} == {("sends", "a")}
    for each in told:
        assert "Kafka refuses it" in each["error"]
    assert sum("max.message.bytes" in each["error"] for each in told) == 2
    assert sum("every message needs a key" in each["error"] for each in told) == 2
    until = time.monotonic() + 150
    while time.monotonic() < until:
        found = [
            ((r.key() or b"").decode(), orjson.loads(r.value() or b"")["n"])
            for r in worker.records("small")
        ]
        if sent <= set(found) and len(worker.records("board")) > 2 * len(whats):
            break
        time.sleep(0.5)
    assert sent <= set(found)
    if guarantee == "exactly_once":
        assert sorted(found) == sorted(sent)
        views = worker.run("views", GUARANTEE=guarantee).stdout
        assert "does NOT add up" not in views
        worker.wait("board", 2 * len(whats) + 1)


def test_a_topic_that_is_deleted_under_a_worker_is_made_again(
    worker: Worker, broker: BrokerAddress, unique: Callable[[str], str]
) -> None:
    """Its transaction was asked for without end, and without a word; and no restart of the
    partition made the topic again."""
    (worker.folder / "app.py").write_text(
        APP + "\nfrom topology.faust.worker.writing import writer; writer.LONGEST = 5.0\n"
    )
    worker.start(GUARANTEE="exactly_once")
    worker.send(*((b"a", b'{"id": "a", "seq": %d, "what": "fine"}' % n) for n in (1, 2)))
    worker.wait("small", 2, 120)
    admin = AdminClient({"bootstrap.servers": broker.address})
    for deleted in admin.delete_topics([f"{worker.prefix}.small"]).values():
        deleted.result(60)
    worker.send(*((b"a", b'{"id": "a", "seq": %d, "what": "fine"}' % n) for n in (3, 4)))
    found = worker.wait("small", 2, 180)
    assert [orjson.loads(record.value() or b"")["n"] for record in found] == [3, 4]
    worker.wait("board", 4)
