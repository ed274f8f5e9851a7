"""The looks on a running topology never say that all is well over what lies somewhere else."""

import signal

import orjson
import pytest

from tests.topology.faust.inspection.test_inspection import Looks, event
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Emit, Inspector, Topology, redeliver
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream="id", sequence="seq", kind="kind"), name="in",
    partitions=2,
)

@topology.view("board", of=source, buffer=4, full=redeliver(delay=0.1, limit=2))
def board(event):
    if event.kind == "Bad":
        raise ValueError("not yet")
    yield Emit(prefix + ".board-out", event.stream, event.content)

app = compile(topology, group=prefix, session_timeout=20)
"""


def test_what_is_dead_failed_malformed_or_unread_is_found(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(worker, monkeypatch)
    worker.start()
    worker.send(event("well", 1), event("a", 2), *(event("a", n) for n in range(8, 20)))
    worker.send(event("b", 1, "Bad"), event("c", 1), (b"c", b'{"id": "c", "seq": "x"}'))
    for topic, count in (("board-out", 2), ("dead", 12), ("errors", 1), ("malformed", 1)):
        worker.wait(topic, count)

    well = worker.run("explain", "well")
    assert (well.returncode, "in order" in well.stdout) == (0, True), well
    a = looks.explain("a", "board")
    assert (a.situation, len(a.passed.ahead), len(a.passed.ahead)) == ("waiting", 12, 12)
    assert [(gap.first, gap.last) for gap in a.place.missing] == [(1, 1), (3, 7)]
    b = looks.explain("b", "board")
    assert (b.situation, b.place.last, b.well) == ("incomplete", 1, False)
    assert b.passed.failed[0].reason == "ValueError: not yet"
    c = looks.explain("c", "board")
    assert (c.situation, c.place.last, len(c.context.malformed)) == ("malformed", 1, 1)
    assert c.context.malformed[0].at.topic == f"{worker.prefix}.in"
    for stream in "abc":
        told = worker.run("explain", stream)
        assert told.returncode == 1, told
        assert "in order" not in told.stdout

    ledger = looks.gaps()
    assert [(gap.stream, gap.waiting, gap.dead) for gap in ledger.gaps] == [("a", 1, 12)]
    assert [trouble.place for trouble in ledger.troubles] == ["dead", "failed"]
    worker.send(event("a", 1), *(event("a", n) for n in range(3, 8)))
    worker.wait("board-out", 2 + 7)
    dead = looks.explain("a", "board")
    assert (dead.situation, dead.place.last, len(dead.passed.ahead)) == ("dead", 7, 12)
    told = worker.run("gaps")
    assert told.returncode == 1
    assert told.stdout.startswith("nothing waits for something that is missing, but:\n")
    told = worker.run("views")
    assert told.returncode == 1
    assert "but 12 dead, 1 failed" in told.stdout
    assert "of the latest messages are malformed, 1 in all; lately: " in told.stdout
    allowed = "views", "--allow", "dead", "--allow", "failed", "--malformed", "0.5"
    assert worker.run(*allowed).returncode == 0
    assert worker.run("gaps", "--allow", "dead", "--allow", "failed").returncode == 0

    assert worker.end(signal.SIGTERM) == 0
    worker.send(event("well", 2), event("b", 2))
    worker.wait_until(lambda: looks.explain("well", "board").context.owner is None)
    unread = looks.explain("well", "board")
    assert (unread.situation, unread.context.unread, unread.context.unkeyed) == ("unread", 1, 2)
    assert unread.context.newest is not None
    assert unread.context.newest.sequence == 2
    (tally,) = looks.views().views
    assert tally.lag >= 2
    told = worker.run(*allowed)
    assert told.returncode == 1
    assert "view board: no worker has partitions 0, 1" in told.stdout
    told = worker.run("explain", "b", "--json")
    assert orjson.loads(told.stdout)[0]["unread"] == 1
