"""Operating a view with workers on the real broker: what commands say, and what they do."""

import signal
import time

import orjson
import pytest

from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import asyncio, os
from pathlib import Path
from topology import Emit, Inspector, Topology, advance, halt, key, park
from topology.faust import compile

prefix, folder = os.environ["PREFIX"], Path(__file__).parent
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream=key(), sequence="seq", kind="kind"), keyed=True,
    partitions=2,
)
error = {"halt": halt, "park": park, "advance": advance}[os.environ.get("ERROR", "advance")]()


@topology.view("board", of=source, workers=4, commit="stream", error=error, closes="Close",
               retention=0.1)
async def board(event):
    while event.kind == "Gate" and not (folder / "gate").exists():
        await asyncio.sleep(0.02)
    if event.kind == "Fail" and not (folder / "mended").exists():
        raise ValueError("boom")
    yield Emit(prefix + ".out", event.stream, {"seq": event.sequence})


@topology.parallel("copy", topic=prefix + ".plain", workers=2)
async def copy(event):
    while event.content == b"gate" and not (folder / "gate").exists():
        await asyncio.sleep(0.02)
    if event.content == b"bad":
        raise ValueError("boom")
    yield Emit(prefix + ".copied", event.message.key, event.content)

if os.environ.get("MORE"):
    topology.parallel("more", topic=prefix + ".more", handler=copy, workers=2)

app = compile(topology, group=prefix, session_timeout=60)
"""


def event(stream: str, seq: int, kind: str = "Ok") -> tuple[bytes, bytes]:
    return stream.encode(), orjson.dumps({"seq": seq, "kind": kind})


def told(worker: Worker, *words: str, status: int | None = None, **environment: str) -> str:
    done = worker.run(*words, **environment)
    assert status in (None, done.returncode), done.stdout + done.stderr
    return done.stdout


def out(worker: Worker) -> list[tuple[bytes | None, int]]:
    return sorted(
        (record.key(), orjson.loads(record.value() or b"")["seq"])
        for record in worker.records("out")
    )


def test_what_arrived_and_is_not_committed_is_not_said_to_be_processed(worker: Worker) -> None:
    worker.start()
    worker.send(event("slow", 1, "Gate"), event("slow", 2), event("quick", 1))
    worker.wait("out", 1)
    worker.wait_until(lambda: worker.count("board.arrivals") == 3)
    (views,) = orjson.loads(told(worker, "views", "--json", status=0))["views"]
    assert views["counts"]["processed"] == 1
    assert sum(part["arrived"] for part in views["work"]) == 2
    assert "3 events came, 3 in its places, of them 2 arrived and not committed" in views["verdict"]
    assert "in order so far: 2 arrived and not committed" in told(worker, "audit", status=0)
    slow = told(worker, "explain", "slow")
    assert "2 events of it are with the workers and not committed, from sequence 1 on" in slow
    assert "all is committed" in told(worker, "explain", "quick", status=0)
    (worker.folder / "gate").touch()
    worker.wait("out", 3)
    views = orjson.loads(told(worker, "views", "--json", status=0))["views"][0]
    assert views["counts"]["processed"] == 3
    assert "no gaps" in told(worker, "gaps", status=0)
    worker.send(event("quick", 2, "Fail"))
    worker.wait("errors", 1)
    assert "1 event passed over" in told(worker, "gaps", status=1)
    assert "in order, but not complete: 1 failed\n" in told(worker, "audit", status=1)
    assert worker.end(signal.SIGTERM) == 0


def test_a_halted_view_is_so_after_a_kill_until_resume_reaches_its_workers(worker: Worker) -> None:
    worker.start(ERROR="halt")
    worker.send(event("a", 1, "Fail"))
    worker.wait("errors", 1)
    worker.wait_until(lambda: "halted in partition" in told(worker, "views", ERROR="halt"))
    assert worker.end(signal.SIGKILL) == -signal.SIGKILL
    audited = told(worker, "audit", status=1, ERROR="halt")
    assert "workers of view board: halted in partition" in audited
    assert "halted in partition" in told(worker, "gaps", status=1, ERROR="halt")
    (worker.folder / "mended").touch()
    worker.start(ERROR="halt")
    worker.send(event("a", 2))
    worker.wait_until(lambda: worker.count("board.arrivals") == 2)
    explained = told(worker, "explain", "a", status=1, ERROR="halt")
    assert "the workers of view board are halted: stream a failed at sequence 1" in explained
    assert "resume board" in explained
    assert not worker.records("out")
    told(worker, "resume", "board", status=0, ERROR="halt")
    worker.wait("out", 2)
    told(worker, "views", status=0, ERROR="halt")
    assert worker.end(signal.SIGTERM) == 0


def test_parked_streams_are_listed_and_redriven_unparked_or_dropped_though_forgotten(
    worker: Worker,
) -> None:
    worker.start(ERROR="park")
    # The first stage forgets what is closed.
    for name, last in {"again": "Close", "without": "Ok", "gone": "Close", "all": "Close"}.items():
        worker.send(event(name, 1, "Fail"), event(name, 2, last))
    worker.wait("errors", 4)
    worker.wait_until(lambda: "4 parked streams, with 8" in told(worker, "parked", ERROR="park"))
    explained = told(worker, "explain", "again", status=1, ERROR="park")
    assert "it is parked at sequence 1, which failed: ValueError: boom" in explained
    assert "8 events parked" in told(worker, "gaps", status=1, ERROR="park")
    audited = told(worker, "audit", status=1, ERROR="park")
    assert "in order, but not complete: 8 parked\n" in audited
    refused = told(worker, "drop", "gone", "--view", "board", status=1, ERROR="park")
    assert "would lose 2 parked events" in refused
    (worker.folder / "mended").touch()
    told(worker, "redrive", "again", status=0, ERROR="park")
    told(worker, "unpark", "without", status=0, ERROR="park")
    told(worker, "drop", "gone", "--force", status=0, ERROR="park")
    worker.wait("out", 3)
    told(worker, "redrive", "--all", ERROR="park")
    worker.wait("out", 5)
    done = [(b"again", 1), (b"again", 2), (b"all", 1), (b"all", 2), (b"without", 2)]
    assert out(worker) == done
    assert {record.key() for record in worker.wait("dead", 3)} == {b"gone", b"without"}
    explained = told(worker, "explain", "without", status=1, ERROR="park")
    assert "it went on without sequence 1, in " in explained
    explained = told(worker, "explain", "gone", status=1, ERROR="park")
    assert "it went on without sequences 1 to 2 (2), in " in explained
    assert "redrive-dead" not in explained
    stays = told(worker, "redrive-dead", ERROR="park")
    assert "0 dead events of 0 streams put back" in stays
    assert "3 stay: their streams have passed them" in stays
    counts = orjson.loads(told(worker, "views", "--json", ERROR="park"))["views"][0]["counts"]
    assert (counts["parked"], counts["dead"], counts["processed"]) == (0, 3, 5)
    audited = told(worker, "audit", status=1, ERROR="park")
    assert "in order, but not complete: 3 dead\n" in audited
    assert worker.end(signal.SIGTERM) == 0


def test_what_parallel_passed_over_is_bad_news(worker: Worker) -> None:
    worker.start()
    worker.wait_until(lambda: worker.run("views").returncode == 0)
    worker.send((b"a", b"good"), (b"a", b"bad"), topic="plain")
    worker.wait("errors", 1)
    worker.wait_until(lambda: worker.run("views").returncode == 1)
    for command in ("views", "gaps", "audit"):
        assert "copy: 1 event passed over" in told(worker, command, status=1)
    assert "is done with the topics of parallel()" in told(worker, "audit")
    # An event of an hour ago, which no time limit excuses.
    worker.send((b"a", b"gate"), topic="plain", when=round(time.time() - 3600) * 1000)
    worker.wait_until(lambda: "copy: stand still in partition" in told(worker, "views"))
    (worker.folder / "gate").touch()
    worker.wait("copied", 2)
    assert "stand still" not in told(worker, "views")
    # Of what no worker has begun yet, an audit cannot tell.
    assert "workers not looked at, as topic" in told(worker, "audit", status=1, MORE="1")
    assert worker.end(signal.SIGTERM) == 0
