"""What waits in a worker's memory only is not lost with it, and no look at the app misses it."""

import signal
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient

from soak.check import read
from tests.topology.faust.inspection.test_inspection import Looks, event
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from functools import partial
from topology import Emit, Inspector, Topology
from topology.faust import compile
from topology.faust.worker import read_again

# Nothing waits for so long here that it gets a row.
read_again.WaitLimits = partial(read_again.WaitLimits, time=3_600_000)
prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream="id", sequence="seq", kind="kind"), name="in",
    partitions=1,
)

@topology.view("board", of=source)
def board(event):
    yield Emit(prefix + ".out", event.stream, event.content)

app = compile(topology, group=prefix, session_timeout=60)
"""


def rows(worker: Worker) -> list[bytes]:
    """The keys of the waiting events that ever had a row."""
    records = read(worker.broker, f"{worker.prefix}-board-changelog")
    return [key for record in records if (key := record.key() or b"")[:1] == b"b"]


def waits(worker: Worker, looks: Looks) -> None:
    """Whatever is looked at says what waits."""
    account = looks.explain("a", "board")
    assert [(gap.first, gap.last) for gap in account.place.missing] == [(2, 2), (5, 5)]
    assert account.situation == "waiting"
    ledger = looks.gaps()
    assert {gap.stream: gap.waiting for gap in ledger.gaps} == {"a": 3, "b": 1}
    told = worker.run("audit")
    assert told.returncode == 0, told.stdout


def test_what_waits_in_memory_only_outlives_a_kill_and_is_told_of(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(worker, monkeypatch)
    worker.start()
    worker.send(*(event("a", n) for n in (1, 3, 4, 6)), event("b", 2))
    worker.wait("out", 1)
    worker.wait_until(lambda: looks.views().views[0].counts.waiting == 4)
    worker.kill()
    assert not rows(worker)
    waits(worker, looks)
    worker.start()
    worker.wait_until(lambda: len(rows(worker)) == 4)
    waits(worker, looks)
    worker.send(event("a", 2), event("b", 1), event("a", 5))
    records = worker.wait("out", 8)
    for stream, numbers in (("a", range(1, 7)), ("b", range(1, 3))):
        found = [r.value() for r in records if r.key() == stream.encode()]
        assert found == [event(stream, n)[1] for n in numbers]
    assert worker.end(signal.SIGTERM) == 0
    told = worker.run("audit")
    assert told.returncode == 0, told.stdout


def test_a_worker_that_ends_in_order_leaves_rows_and_what_is_gone_after_a_kill_is_dead_and_told(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(worker, monkeypatch)

    def counts() -> Any:
        return looks.views().views[0].counts

    worker.start()
    worker.send(event("a", 2), event("a", 4), event("b", 2))
    worker.wait("in.by-stream", 3)
    worker.wait_until(lambda: counts().waiting == 3)
    assert not rows(worker)
    assert worker.end(signal.SIGTERM) == 0
    assert len(rows(worker)) == 3
    worker.start()
    worker.send(event("a", 1), event("c", 2), event("c", 4), event("d", 2))
    worker.wait_until(lambda: (counts().processed, counts().waiting) == (2, 5))
    worker.kill()
    by_stream = TopicPartition(f"{worker.prefix}.in.by-stream", 0, OFFSET_END)
    admin = AdminClient({"bootstrap.servers": worker.broker})
    for found in admin.delete_records([by_stream]).values():
        found.result()
    worker.start()
    worker.wait_until(lambda: counts().dead > 0)
    found = counts()
    assert (found.dead, found.waiting, found.accounted) == (3, 2, found.received)
    assert sorted(r.key() or b"" for r in worker.records("dead")) == [b"c", b"c", b"d"]
    worker.send(event("a", 3), *(event("c", n) for n in (1, 2, 3, 4)))
    worker.wait("out", 8)
    assert worker.end(signal.SIGTERM) == 0
