"""What waits in a worker's memory only is not lost with it, and no look at the app misses it."""

import signal

import pytest

from soak.check import read
from tests.topology.faust.inspection.test_inspection import Looks, event
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Emit, Inspector, Topology
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream="id", sequence="seq", kind="kind"), name="in",
    partitions=1,
)

@topology.view("board", of=source)
def board(event):
    yield Emit(prefix + ".out", event.stream, event.content)

app = compile(topology, group=prefix, session_timeout=6, short_waits=True)
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
