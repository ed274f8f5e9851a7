"""Catching up makes no disorder: a source's partitions are read in the order of their times."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer

from tests.conftest import BrokerAddress
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Inspector, Topology, contiguous
from topology.engine.partition import alignment
from topology.faust import compile

alignment.PATIENCE = int(os.environ.get("PATIENCE", "60000"))
prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    f"{prefix}.in", inspector=Inspector("s", "n"), sequence=contiguous(start=1), partitions=1
)
topology.view("all", of=source, handler=lambda event: None)
app = compile(topology, session_timeout=20, batch=100, read_ahead=0)
"""
COUNT, BATCH = 3_000, 100
START = 1_790_000_000_000


def send(worker: Worker, times: Sequence[int] = (0, COUNT // 2)) -> None:
    """COUNT messages of one stream: one half in partition 0, the other in partition 1.

    times: of the first message of each.
    """
    producer = Producer({"bootstrap.servers": worker.broker})
    for number in range(COUNT):
        at, place = divmod(number, COUNT // 2)
        value = orjson.dumps({"s": "A", "n": number + 1})
        time = START + times[at] + place if times[at] >= 0 else START
        producer.produce(f"{worker.prefix}.in", value, partition=at, timestamp=time)
    assert producer.flush(30) == 0


def disorder(worker: Worker) -> int:
    """How far a message is behind later ones, at most, where views read it."""
    highest = most = 0
    for record in worker.wait(f"{worker.prefix}.in.by-stream", COUNT):
        number = orjson.loads(record.value() or b"")["n"]
        most, highest = max(most, highest - number), max(highest, number)
    return most


@pytest.fixture
def worker(broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(broker.address, unique("aligned"), tmp_path, APP)
    yield worker
    worker.kill()


def test_a_backlog_is_read_in_the_order_of_its_times(worker: Worker) -> None:
    send(worker)
    worker.start()
    # Without alignment one half comes before the other: COUNT // 2. A loaded machine adds batches.
    assert disorder(worker) <= 8 * BATCH
    worker.wait_until(lambda: "for slower ones" in worker.run("views").stdout)


def test_a_partition_whose_clock_stands_still_holds_the_other_up_for_a_while_only(
    worker: Worker,
) -> None:
    send(worker, (-1, 10_000))
    worker.start(PATIENCE="300")
    worker.wait(f"{worker.prefix}.in.by-stream", COUNT)
