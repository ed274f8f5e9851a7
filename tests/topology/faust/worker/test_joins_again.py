"""A view that has caught up reads with the others again, and says so, also where nothing comes."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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

topology.view("one", of=source, handler=handler)
topology.view("two", of=source, handler=handler)
app = compile(topology, group=prefix, guarantee=os.environ["GUARANTEE"], session_timeout=6)
"""
STREAMS = 12


@pytest.fixture
def worker(broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Worker]:
    made = Worker(broker.address, unique("joins"), tmp_path, APP)
    yield made
    made.kill()


def events(sequence: int) -> list[tuple[bytes, bytes]]:
    streams = (f"s{n}" for n in range(STREAMS))
    return [(s.encode(), orjson.dumps({"id": s, "seq": sequence})) for s in streams]


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_resumed_view_that_caught_up_lags_no_more(worker: Worker, guarantee: str) -> None:
    env = {"GUARANTEE": guarantee}

    def told() -> dict[str, tuple[list[int], int]]:
        found: dict[str, Any] = orjson.loads(worker.run("views", "--json", **env).stdout)
        return {each["view"]: (each["apart"], each["lag"]) for each in found["views"]}

    worker.start(**env)
    worker.send(*events(1))
    worker.wait("one", STREAMS)
    assert worker.run("halt", "one", **env).returncode == 0
    worker.send(*events(2))
    worker.wait("two", 2 * STREAMS)
    assert told()["one"][0] == [0, 1]
    assert worker.run("resume", "one", **env).returncode == 0
    worker.wait("one", 2 * STREAMS)
    worker.wait_until(lambda: told() == {"one": ([], 0), "two": ([], 0)}, 30)
    if guarantee == "exactly_once":
        audit = worker.run("audit", "--json", **env)
        assert audit.returncode == 0, audit.stdout
        assert [view["behind"] for view in orjson.loads(audit.stdout)["views"]] == [0, 0]
    assert worker.end(signal.SIGTERM) == 0
