"""Large events come back like small ones; what the broker refuses is not said to be back."""

import random
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from tests.conftest import make_topics
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

PARTITIONS = 1
APP = """
import os
from pathlib import Path
import orjson
from topology import Inspected, Topology
from topology.faust import compile

prefix = os.environ["PREFIX"]
mended = Path(os.environ["MENDED"])
topology = Topology(prefix)

def inspect(message):
    body = orjson.loads(message.value)
    if body.get("old") and not mended.exists():
        raise ValueError("an old format")
    return Inspected(body["id"], body["seq"], None, body["seq"])

source = topology.source(prefix + ".in", inspector=inspect, partitions=1, keyed=True)

@topology.view("board", of=source)
def board(event):
    pass

app = compile(topology, group=prefix, session_timeout=60)
"""


def send(worker: Worker, *events: dict[str, object]) -> None:
    """Send events of stream `a`, compressed: so they fit into the source's topic."""
    producer = Producer(
        {
            "bootstrap.servers": worker.broker,
            "message.max.bytes": 16 << 20,
            "compression.type": "gzip",
        }
    )
    for event in events:
        producer.produce(f"{worker.prefix}.in", orjson.dumps({"id": "a", **event}), b"a")
    assert producer.flush(60) == 0


def skipped(worker: Worker, **told: str) -> None:
    """Sequence 3, which waits, is dead."""
    done = worker.run("skip", "a", "3", "--view", "board", "--force", **told)
    assert done.returncode == 0, done
    worker.wait("dead", 1)


def test_large_events_are_put_back_and_large_messages_sent_again(
    worker: Worker, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    told = {"MENDED": str(mended)}
    worker.start(**told)
    pad = "x" * (3 << 20)
    send(worker, {"seq": 1}, {"seq": 3, "pad": pad}, {"seq": 5, "old": True, "pad": pad})
    worker.wait("malformed", 1)
    skipped(worker, **told)
    back = worker.run("redrive-dead", **told)
    assert back.returncode == 0, back
    (late,) = worker.wait("late", 1)
    assert len(late.value() or b"") > len(pad)
    mended.touch()
    again = worker.run("replay", "malformed", **told)
    assert again.returncode == 0, again
    assert len(worker.wait("in", 4)[-1].value() or b"") > len(pad)
    listed = worker.run("commands", **told).stdout
    assert "1 of 1 dead event put back" in listed
    assert "1 of 1 malformed message sent again" in listed


def test_dead_events_that_the_broker_refuses_stay_dead(worker: Worker, tmp_path: Path) -> None:
    told = {"MENDED": str(tmp_path / "mended")}
    small = {"max.message.bytes": "500"}
    make_topics(worker.broker, NewTopic(f"{worker.prefix}.board.redeliver", 1, 1, config=small))
    worker.start(**told)
    pad = random.Random(1).randbytes(4000).hex()
    send(worker, {"seq": 1}, {"seq": 3, "pad": pad}, {"seq": 5, "old": True})
    worker.wait("malformed", 1)
    skipped(worker, **told)
    refused = worker.run("redrive-dead", **told)
    assert (refused.returncode, refused.stdout) == (2, ""), refused
    assert "raise its max.message.bytes" in refused.stderr
    assert worker.count("board.redeliver") == 0
    assert "redrive-dead" not in worker.run("commands", **told).stdout
