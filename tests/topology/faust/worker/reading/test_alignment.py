"""Catching up makes no disorder: a source's partitions are read in the order of their times."""

import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import orjson
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

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
app = compile(topology, session_timeout=60, batch=100, read_ahead=0)
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
    assert producer.flush(120) == 0


def disorder(worker: Worker, count: int = COUNT) -> int:
    """How far a message is behind later ones, at most, where views read it."""
    highest = most = 0
    for record in worker.wait(f"{worker.prefix}.in.by-stream", count):
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
    records = worker.wait(f"{worker.prefix}.in.by-stream", COUNT)
    numbers = [orjson.loads(record.value() or b"")["n"] for record in records]
    later = next(at for at, number in enumerate(numbers) if number > COUNT // 2)
    # What is in hand when the second half begins: a batch or two, however long they take. Without
    # alignment both halves come side by side.
    assert sum(number <= COUNT // 2 for number in numbers[later:]) <= 4 * BATCH
    worker.wait_until(lambda: "for slower ones" in worker.run("views").stdout)


def test_a_partition_whose_clock_stands_still_holds_the_other_up_for_a_while_only(
    worker: Worker,
) -> None:
    send(worker, (-1, 10_000))
    worker.start(PATIENCE="300")
    worker.wait(f"{worker.prefix}.in.by-stream", COUNT)


UNEQUAL = """
import os
import time
from pathlib import Path
from threading import Thread
from topology import Inspector, Topology, contiguous
from topology.engine.partition import group_alignment
from topology.engine.stream_task import RekeyTask
from topology.faust import compile
from topology.faust.worker.reading import group_reading

group_reading.EVERY = group_reading.WAITING = 0.05
group_alignment.PATIENCE = group_alignment.LONGEST = 3_600_000

def lose_patience():
    while not (Path(__file__).parent / "impatient").exists():
        time.sleep(0.1)
    group_alignment.PATIENCE = 1_000

Thread(target=lose_patience, daemon=True).start()
slow, process = float(os.environ.get("SLOW", "0")), RekeyTask.process

def slowly(self, records, now):
    time.sleep(slow)
    return process(self, records, now)

RekeyTask.process = slowly
prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    f"{prefix}.in", inspector=Inspector("s", "n"), sequence=contiguous(start=1), partitions=1
)
topology.view("all", of=source, handler=lambda event: None)
app = compile(topology, session_timeout=900, batch=100)
app.conf.broker_heartbeat_interval = 3
"""
PAST = 1_600_000_000_000
"""Of messages that are a backlog whatever this machine's clock says."""


EACH = 6_000
"""Messages of a partition. The slow worker takes 10 s at least for them, the other a second."""
FAR = EACH * 3 // 4
"""By how many numbers a message is behind later ones where nobody waits."""


def send_evenly(worker: Worker, first: int, behind: int) -> None:
    """Messages of one stream, a millisecond apart, to both partitions in turns."""
    producer = Producer({"bootstrap.servers": worker.broker})
    for number in range(first, behind):
        value = orjson.dumps({"s": "A", "n": number + 1})
        producer.produce(
            f"{worker.prefix}.in", value, partition=number % 2, timestamp=PAST + number
        )
    assert producer.flush(120) == 0


def have_a_partition_each(worker: Worker) -> bool:
    admin = AdminClient({"bootstrap.servers": worker.broker})
    try:
        group = admin.describe_consumer_groups([worker.prefix])[worker.prefix].result(60)
    except KafkaException:  # its coordinator is still to be made
        return False
    mine = [
        [tp for tp in member.assignment.topic_partitions if tp.topic == f"{worker.prefix}.in"]
        for member in group.members
    ]
    return sorted(map(len, mine)) == [1, 1]


@pytest.mark.parametrize("ahead", ["0", "-1"], ids=["aligned", "unbounded"])
def test_of_two_workers_the_faster_one_stays_beside_the_slower_one_while_it_moves(
    broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path, ahead: str
) -> None:
    """Each has one partition. The slow one is then frozen: the other reads on without it.

    Unbounded, it reads all that it has while the slow one is at its first message.
    """
    first = Worker(broker.address, unique("abreast"), tmp_path, UNEQUAL)
    second = first.another("two")
    try:
        for worker, slow in ((first, "0"), (second, "0.2" if ahead == "0" else "600")):
            worker.start(SLOW=slow, SEQUITUR_READ_AHEAD=ahead)
        first.wait_until(lambda: have_a_partition_each(first))
        send_evenly(first, 0, 2 * EACH)
        if ahead == "-1":
            first.wait(f"{first.prefix}.in.by-stream", EACH)
            return
        assert disorder(first, 2 * EACH) < FAR
        first.wait_until(lambda: "for slower ones" in first.run("views").stdout)
        assert second.process is not None
        second.process.send_signal(signal.SIGSTOP)
        (tmp_path / "impatient").touch()
        sent = 2 * EACH

        def goes_on_alone() -> bool:
            """Given some more, less than the second that it may be ahead between two looks."""
            nonlocal sent
            send_evenly(first, sent, sent + 800)
            sent += 800
            return "time no longer for one" in first.run("views").stdout

        first.wait_until(goes_on_alone)
        first.wait(f"{first.prefix}.in.by-stream", EACH + sent // 2)
    finally:
        first.kill()
        second.kill()
