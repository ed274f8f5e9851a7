"""Messages above 1 MB pass; one that fits none of our topics is malformed, and stops nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from tests.conftest import BrokerAddress, make_topics
from tests.topology.faust.worker_process import Worker
from topology.model.origin_headers import REASON

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Inspector, Topology, Upsert, redeliver
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    [prefix + ".in", prefix + ".large"], inspector=Inspector(stream="id", sequence="seq"),
    partitions=1, name="in",
)

def handler(event):
    yield Upsert("board", key={"id": event.stream}, values={"size": len(event.content["pad"])})

topology.view("spills", of=source, handler=handler)
topology.view("sends", of=source, handler=handler, buffer=2, full=redeliver(delay=0.3))
app = compile(topology, group=prefix, session_timeout=60)
"""


@pytest.fixture
def worker(broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Worker]:
    made = Worker(broker.address, unique("large"), tmp_path, APP, partitions=1)
    large = NewTopic(f"{made.prefix}.large", 1, 1, config={"max.message.bytes": str(5 << 20)})
    make_topics(broker.address, large)
    yield made
    made.kill()


def send(worker: Worker, topic: str, sequence: int, size: int, compression: str) -> None:
    """An event of stream `a` with a body of about so many bytes."""
    producer = Producer(
        {
            "bootstrap.servers": worker.broker,
            "message.max.bytes": 40 << 20,
            "compression.type": compression,
        }
    )
    body = orjson.dumps({"id": "a", "seq": sequence, "pad": "x" * size})
    failed: list[str] = []

    def told(error: object, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    producer.produce(f"{worker.prefix}.{topic}", body, b"a", on_delivery=told)
    assert producer.flush(60) == 0
    assert not failed, failed


def test_a_large_message_fits_everywhere_or_is_malformed(worker: Worker) -> None:
    worker.start()
    send(worker, "large", 5, 3 << 20, "none")  # beyond the ring of one view
    send(worker, "large", 2, 3 << 20, "none")  # waits in both
    send(worker, "in", 3, 7 << 20, "gzip")  # compressed it is small
    send(worker, "in", 4, 20 << 20, "gzip")  # fits no topic of ours
    (malformed,) = worker.wait("malformed", 1)
    assert malformed.value() is None
    assert b"the limit is" in bytes(dict(malformed.headers() or ())[REASON] or b"")  # type: ignore[arg-type]
    send(worker, "in", 1, 1, "none")
    send(worker, "in", 4, 1, "none")
    for view in ("spills", "sends"):
        sizes = [orjson.loads(r.value() or b"")["changes"] for r in worker.wait(view, 5)]
        found = [change["values"]["size"] for (change,) in sizes]
        assert found == [1, 3 << 20, 7 << 20, 1, 3 << 20]
    audit = orjson.loads(worker.run("audit", "--json").stdout)
    assert audit["number"] == 0, audit
