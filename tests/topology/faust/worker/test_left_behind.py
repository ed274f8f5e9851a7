"""A view that some workers' version of the topology does not have misses nothing for that."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from tests.conftest import BrokerAddress
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Inspector, Topology, Upsert
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream="id", sequence="seq"), partitions=2, name="in"
)

def handler(event):
    yield Upsert("board", key={"id": event.stream}, values={"seq": event.sequence})

async def awaited(event):
    yield Upsert("board", key={"id": event.stream}, values={"seq": event.sequence})

topology.view("old", of=source, handler=handler)
if os.environ.get("NEW"):
    topology.view("new", of=source, handler=handler)
    topology.view("slow", of=source, handler=awaited)

app = compile(topology, group=prefix, guarantee=os.environ["GUARANTEE"], session_timeout=45)
"""
STREAMS = 12


@pytest.fixture
def worker(broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Worker]:
    made = Worker(broker.address, unique("behind"), tmp_path, APP)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait()


def events(sequence: int) -> list[tuple[bytes, bytes]]:
    streams = (f"s{n}" for n in range(STREAMS))
    return [(s.encode(), orjson.dumps({"id": s, "seq": sequence})) for s in streams]


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_view_goes_on_where_it_stood_after_workers_without_it(
    worker: Worker, guarantee: str
) -> None:
    old, new = {"GUARANTEE": guarantee}, {"GUARANTEE": guarantee, "NEW": "1"}
    for sequence, version in enumerate((new, old, old, new), 1):
        worker.start(**version)
        worker.send(*events(sequence))
        worker.wait("old", STREAMS * sequence)
        if sequence == 1:
            worker.wait("new", STREAMS)
            worker.wait("slow", STREAMS)
        if sequence < 4:
            assert worker.end(signal.SIGTERM) == 0
        if sequence == 3:
            # What lies before it unread is not called missing.
            explained = worker.run("explain", "s1", "--view", "new", **new)
            assert "not read yet" in explained.stdout, explained.stdout
            assert "missing" not in explained.stdout, explained.stdout
    worker.wait("new", STREAMS * 4)
    worker.wait("slow", STREAMS * 4)
    views = worker.run("views", **new)
    assert "does NOT add up" not in views.stdout
    if guarantee == "exactly_once":
        assert worker.run("audit", **new).returncode == 0
