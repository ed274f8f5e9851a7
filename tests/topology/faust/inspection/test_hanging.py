"""What hangs is told of: an awaited view, though others go on; and re-keying."""

import signal

import pytest

from tests.topology.faust.inspection.test_inspection import Looks, event
from tests.topology.faust.worker_process import Worker
from topology.diagnostics.explain.bad_news import STILL
from topology.faust.inspection import standing_still

pytestmark = pytest.mark.integration

APP = """
import asyncio
import os
from topology import Emit, Inspector, Topology
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream="id", sequence="seq", kind="kind"), name="in",
    partitions=2,
)

@topology.view("board", of=source)
def board(event):
    yield Emit(prefix + ".board-out", event.stream, event.content)

@topology.view("slow", of=source)
async def slow(event):
    if event.kind == "Hang":
        await asyncio.Event().wait()
    yield Emit(prefix + ".slow-out", event.stream, event.content)

app = compile(topology, group=prefix, session_timeout=60)
"""


def test_an_awaited_view_that_hangs_stands_still(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_still, "STILL", 3.0)
    looks = Looks(worker, monkeypatch)
    worker.start()
    worker.send(event("a", 1))
    worker.wait("slow-out", 1)
    assert not looks.views().troubles()
    worker.send(event("a", 2, "Hang"))
    worker.wait("board-out", 2)
    found = looks.views()
    assert found.adds_up
    (trouble,) = found.troubles()
    assert (trouble.whose, trouble.place) == ("view slow", STILL)


def test_re_keying_that_hangs_stands_still(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_still, "STILL", 3.0)
    looks = Looks(worker, monkeypatch)
    worker.start()
    worker.send(event("a", 1))
    worker.wait("slow-out", 1)
    worker.wait("board-out", 1)
    worker.process.send_signal(signal.SIGSTOP)
    worker.send(event("a", 2))
    found = looks.views()
    assert found.adds_up
    (trouble,) = found.troubles()
    assert (trouble.whose, trouble.place) == ("source in", STILL)
    assert f"stands still in {worker.prefix}.in/" in trouble.what
