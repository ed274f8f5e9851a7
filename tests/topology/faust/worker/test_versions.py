"""Views that read apart for a while: halted, or unknown to the version of some workers."""

import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka.cimpl import NewTopic

from tests.conftest import BrokerAddress, make_topics
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Inspector, Topology, Upsert
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)

def handler(event):
    yield Upsert("board", key={"id": event.stream}, values={"seq": event.sequence})

async def awaited(event):
    yield Upsert("board", key={"id": event.stream}, values={"seq": event.sequence})

def source(name):
    inspector = Inspector(stream="id", sequence="seq")
    return topology.source(prefix + "." + name, inspector=inspector, partitions=2, name=name)

first = source("in")
for name in os.environ["VIEWS"].split():
    of = source("more") if name == "other" else first
    topology.view(name, of=of, handler=awaited if name == "slow" else handler)
app = compile(topology, group=prefix, guarantee=os.environ["GUARANTEE"], session_timeout=45,
              broker_heartbeat_interval=1.0)
"""
STREAMS = 12


@pytest.fixture(params=["exactly_once", "at_least_once"])
def guarantee(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def workers(
    broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path
) -> Iterator[list[Worker]]:
    """Two workers, one and two, neither of which runs yet."""
    one = Worker(broker.address, unique("versions"), tmp_path, APP)
    made = [one, one.another("two")]
    yield made
    for worker in made:
        worker.kill()


@pytest.fixture
def worker(workers: list[Worker]) -> Worker:
    return workers[0]


def add_source(worker: Worker) -> None:
    """Make the topic of view `other`."""
    make_topics(worker.broker, NewTopic(f"{worker.prefix}.more", 2, 1))


def events(sequence: int) -> list[tuple[bytes, bytes]]:
    """The event of each stream that has this sequence."""
    streams = (f"s{n}" for n in range(STREAMS))
    return [(s.encode(), orjson.dumps({"id": s, "seq": sequence})) for s in streams]


def test_a_resumed_view_that_caught_up_lags_no_more(worker: Worker, guarantee: str) -> None:
    env = {"GUARANTEE": guarantee, "VIEWS": "one two"}

    def told() -> dict[str, tuple[list[int], int]]:
        found: dict[str, Any] = orjson.loads(worker.run("views", "--json", **env).stdout)
        return {each["view"]: (each["apart"], each["lag"]) for each in found["views"]}

    worker.start(**env)
    worker.send(*events(1))
    worker.wait("one", STREAMS)
    assert worker.run("halt", "one", **env).returncode == 0
    worker.send(*events(2))
    worker.wait("two", 2 * STREAMS)
    worker.wait_until(lambda: told()["one"][0] == [0, 1])
    assert worker.run("resume", "one", **env).returncode == 0
    worker.wait("one", 2 * STREAMS)
    worker.wait_until(lambda: told() == {"one": ([], 0), "two": ([], 0)})
    if guarantee == "exactly_once":
        audit = worker.run("audit", "--json", **env)
        assert audit.returncode == 0, audit.stdout
        assert [view["behind"] for view in orjson.loads(audit.stdout)["views"]] == [0, 0]
    assert worker.end(signal.SIGTERM) == 0


def test_a_view_goes_on_where_it_stood_after_workers_without_it(
    worker: Worker, guarantee: str
) -> None:
    old = {"GUARANTEE": guarantee, "VIEWS": "old"}
    new = {"GUARANTEE": guarantee, "VIEWS": "old new slow"}
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


def ready(worker: Worker, times: int) -> bool:
    """Whether the worker has started so often."""
    return worker.log_file.read_text().count("[^Worker]: Ready") == times


def test_workers_are_rolled_one_by_one_to_a_version_with_more_views_and_back(
    workers: list[Worker],
) -> None:
    old = {"GUARANTEE": "exactly_once", "VIEWS": "old"}
    new = {"GUARANTEE": "exactly_once", "VIEWS": "old new other"}
    # The one that starts first leads the group, and assigns to the other what that subscribes to.
    leader, member = workers
    add_source(leader)
    sequence = 0

    def send() -> None:
        """Of each stream one more event."""
        nonlocal sequence
        sequence += 1
        leader.send(*events(sequence))
        leader.send(*events(sequence), topic="more")

    for worker in (leader, member):
        worker.start(**old)
        worker.wait_until(partial(ready, worker, 1))
    send()
    for turn, version in enumerate((new, old, new), 2):
        # The leader is the last one to go forward, and the first one to go back.
        for worker in (leader, member) if version is old else (member, leader):
            assert worker.end(signal.SIGTERM) == 0
            send()
            worker.start(**version)
            worker.wait_until(partial(ready, worker, turn))
            send()
            leader.wait("old", STREAMS * sequence)
    for view in ("new", "other"):
        leader.wait(view, STREAMS * sequence)
    assert "does NOT add up" not in leader.run("views", **new).stdout
    audit = leader.run("audit", **new)
    assert audit.returncode == 0, audit.stdout
    for worker in workers:
        assert worker.end(signal.SIGTERM) == 0
        log = worker.log_file.read_text()
        assert "Unexpected error in coordinator routine" not in log
        assert "Traceback" not in log
