"""Policies and commands on a running worker: what is set aside, and what brings it back."""

import signal
from pathlib import Path

import orjson
import pytest

from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from pathlib import Path
from topology import Emit, Inspector, Topology, key, park, redeliver, retry
from topology.faust import compile

prefix = os.environ["PREFIX"]
mended = Path(os.environ["MENDED"])
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream=key(), sequence="seq", kind="kind"), keyed=True,
    partitions=2,
)

@topology.view("careful", of=source, buffer=4, error=park(), full=redeliver(delay=0.3))
def careful(event):
    if event.kind == "Bad" and not mended.exists():
        raise ValueError("not yet")
    yield Emit(prefix + ".careful-out", event.stream, event.content)

@topology.view("patient", of=source, error=retry(1000, backoff=0.2, limit=1, then=park()))
def patient(event):
    if event.kind == "Bad" and not mended.exists():
        raise ValueError("not yet")
    yield Emit(prefix + ".patient-out", event.stream, event.content)

app = compile(topology, group=prefix, session_timeout=60)
"""


def event(stream: str, seq: int, kind: str = "Ok") -> tuple[bytes, bytes]:
    return stream.encode(), orjson.dumps({"seq": seq, "kind": kind})


def sequences(worker: Worker, topic: str, count: int, stream: str) -> list[int]:
    records = worker.wait(topic, count)
    found = (orjson.loads(r.value() or b"")["seq"] for r in records if r.key() == stream.encode())
    return list(found)


def test_parked_streams_wait_and_are_redriven_retried_ones_go_on_by_themselves(
    worker: Worker, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    worker.start(MENDED=str(mended))
    worker.send(event("a", 1), event("a", 2, "Bad"), event("a", 3), event("b", 1))
    assert sequences(worker, "careful-out", 2, "a") == [1]
    assert sequences(worker, "patient-out", 2, "a") == [1]
    parked = [orjson.loads(r.value() or b"") for r in worker.wait("parked", 2)]
    assert [p["sequence"] for p in parked] == [2, 3]

    told = worker.run("redrive", "a", "--view", "careful", "--dry-run", MENDED=str(mended))
    assert told.returncode == 0, told
    assert "sequence 2 would fail" in told.stdout

    worker.end(signal.SIGKILL)
    worker.start(MENDED=str(mended))
    mended.touch()
    assert sequences(worker, "patient-out", 4, "a") == [1, 2, 3]
    worker.send(event("a", 4))
    assert sequences(worker, "patient-out", 5, "a") == [1, 2, 3, 4]
    assert worker.count("careful-out") == 2
    told = worker.run("redrive", "a", "--view", "careful", MENDED=str(mended))
    assert told.returncode == 0, told
    assert sequences(worker, "careful-out", 5, "a") == [1, 2, 3, 4]
    refused = worker.run("redrive", "a", "--view", "careful", MENDED=str(mended))
    assert refused.returncode == 1
    assert "is not parked" in refused.stdout
    assert worker.end(signal.SIGTERM) == 0
    assert "redrive" in {
        orjson.loads(r.value() or b"")["name"] for r in worker.wait("audit", 4 + 2)
    }


def test_a_halted_view_waits_apart_and_takes_up_where_it_was(
    worker: Worker, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    mended.touch()
    worker.start(MENDED=str(mended))
    worker.send(*(event(f"s{n}", 1) for n in range(8)))
    worker.wait("careful-out", 8)
    assert worker.run("halt", "careful", MENDED=str(mended)).returncode == 0
    worker.send(*(event(f"s{n}", 2) for n in range(8)))
    worker.wait("patient-out", 16)
    worker.end(signal.SIGKILL)
    worker.start(MENDED=str(mended))
    worker.send(*(event(f"s{n}", 3) for n in range(8)))
    worker.wait("patient-out", 24)
    assert worker.count("careful-out") == 8
    assert worker.run("resume", "careful", MENDED=str(mended)).returncode == 0
    for n in range(8):
        assert sequences(worker, "careful-out", 24, f"s{n}") == [1, 2, 3]
    assert worker.end(signal.SIGTERM) == 0


def test_what_the_ring_has_no_room_for_comes_again(worker: Worker, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    mended.touch()
    worker.start(MENDED=str(mended))
    worker.send(*(event("a", seq) for seq in (2, 3, 4, 5, 9, 8, 7, 6)))
    worker.wait_until(lambda: worker.count("careful.redeliver") >= 5)
    worker.send(event("b", 1))
    worker.wait("careful-out", 1)
    worker.end(signal.SIGKILL)
    worker.start(MENDED=str(mended))
    worker.send(event("a", 1))
    assert sequences(worker, "careful-out", 10, "a") == list(range(1, 10))
    assert worker.end(signal.SIGTERM) == 0


def test_skip_and_drop_say_what_they_refuse(worker: Worker, tmp_path: Path) -> None:
    mended = str(tmp_path / "mended")
    worker.start(MENDED=mended)
    worker.send(event("a", 1), event("a", 3), event("b", 1))
    worker.wait("careful-out", 2)
    assert worker.run("skip", "a", "3", "--view", "careful", MENDED=mended).returncode == 1
    done = worker.run("skip", "a", "2", "--view", "careful", "--json", MENDED=mended)
    assert done.returncode == 0, done
    assert orjson.loads(done.stdout)["facts"]["last"] == 2
    assert sequences(worker, "careful-out", 3, "a") == [1, 3]
    nobody = worker.run("drop", "nobody", "--view", "careful", MENDED=mended)
    assert nobody.returncode == 1
    assert "has no stream 'nobody'" in nobody.stdout
    unnamed = worker.run("drop", "a", MENDED=mended)
    assert unnamed.returncode == 2
    assert "--view" in unnamed.stderr
    assert worker.run("drop", "a", "--view", "careful", MENDED=mended).returncode == 0
    worker.send(event("a", 1))
    assert sequences(worker, "careful-out", 4, "a") == [1, 3, 1]
    assert worker.end(signal.SIGTERM) == 0


def test_dead_events_are_put_back_once_and_in_order(worker: Worker, tmp_path: Path) -> None:
    mended = str(tmp_path / "mended")
    worker.start(MENDED=mended)
    worker.send(event("a", 1), *(event("a", seq) for seq in (3, 4, 5)), event("b", 1))
    worker.wait("careful-out", 2)
    skipped = worker.run("skip", "a", "5", "--view", "careful", "--force", MENDED=mended)
    assert skipped.returncode == 0, skipped
    assert worker.run("drop", "a", "--view", "careful", MENDED=mended).returncode == 0
    worker.wait("dead", 3)
    dry = worker.run("redrive-dead", "--view", "careful", "--dry-run", MENDED=mended)
    assert dry.returncode == 0, dry
    assert "3 dead events of 1 stream would be put back" in dry.stdout

    worker.send(event("a", 1), event("a", 2))
    worker.wait("careful-out", 4)
    done = worker.run("redrive-dead", "--view", "careful", "--json", MENDED=mended)
    assert done.returncode == 0, done
    assert orjson.loads(done.stdout)["streams"] == {"a": [3, 4, 5]}
    assert sequences(worker, "careful-out", 7, "a") == [1, 1, 2, 3, 4, 5]
    again = worker.run("redrive-dead", "--view", "careful", "--json", MENDED=mended)
    told = orjson.loads(again.stdout)
    assert (again.returncode, told["events"], told["before"]) == (0, 0, 3)
    assert worker.count("careful-out") == 7
    assert worker.end(signal.SIGTERM) == 0
