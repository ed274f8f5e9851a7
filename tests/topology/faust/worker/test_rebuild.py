"""late=rebuild_stream() on the real broker, with kills in between."""

import signal
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.topology.faust.only_in_log import capture, delete
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Emit, Inspector, Topology, Upsert, rebuild_stream, skip
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector("id", "n"), partitions=2, name="in",
)

def trail(event, state):
    state["seen"] = [*state.get("seen", []), event.sequence]
    yield Upsert("trails", key={"id": event.stream}, values={"seen": str(state["seen"])})
    before = state["seen"][-2] if len(state["seen"]) > 1 else 0
    yield Upsert("steps", key={"id": event.stream, "before": before},
                 values={"n": event.sequence})
    yield Emit(prefix + ".emitted", event.stream, {"n": event.sequence})

async def later(event, state):
    return list(trail(event, state))

for name, handler, limit in (("plain", trail, 1000), ("awaited", later, 1000), ("short", trail, 3)):
    topology.view(
        name, of=source, handler=handler, gap=skip(after=1), late=rebuild_stream(limit=limit)
    )

app = compile(topology, group=prefix, session_timeout=60)
"""
STREAMS = [f"s{n}" for n in range(12)]
LAST = 40


def event(stream: str, n: int) -> tuple[bytes, bytes]:
    return stream.encode(), orjson.dumps({"id": stream, "n": n})


def store(worker: Worker, view: str) -> dict[tuple[str, bytes], Any]:
    """The rows as a read store has them; records of a partition are in order."""
    rows: dict[tuple[str, bytes], Any] = {}
    fence: dict[str, tuple[int, int]] = {}
    for record in worker.records(view):
        body = orjson.loads(record.value() or b"")
        at = body.get("epoch", 0), body["sequence"]
        if at <= fence.get(body["stream"], (0, 0)):
            continue
        fence[body["stream"]] = at
        for change in body["changes"]:
            place = change["table"], orjson.dumps(change["key"], option=orjson.OPT_SORT_KEYS)
            if change["op"] == "delete":
                rows.pop(place, None)
            else:
                rows.setdefault(place, {}).update(change["values"])
    return rows


def wanted(numbers: range) -> dict[tuple[str, bytes], Any]:
    rows: dict[tuple[str, bytes], Any] = {}
    for stream in STREAMS:
        rows["trails", orjson.dumps({"id": stream})] = {"seen": str([*numbers])}
        for n in numbers:
            rows["steps", orjson.dumps({"before": n - 1, "id": stream})] = {"n": n}
    return rows


def holds(worker: Worker, view: str, numbers: range) -> bool:
    return store(worker, view) == wanted(numbers)


def passed(worker: Worker, n: int) -> bool:
    """Whether all streams are behind a gap in front of a number."""
    at = [("steps", orjson.dumps({"before": n - 2, "id": stream})) for stream in STREAMS]
    return all(store(worker, view).keys() >= {*at} for view in ("plain", "awaited"))


def test_late_events_are_put_in_their_place_over_kills(worker: Worker, tmp_path: Path) -> None:
    worker.start()
    late = (2, 3, 17, 30)
    for stream in STREAMS:
        worker.send(*(event(stream, n) for n in range(1, LAST) if n not in late))
    for view in ("plain", "awaited", "short"):
        # All gaps are given up.
        worker.wait(view, len(STREAMS) * (LAST - 1 - len(late)))
    for number in late:
        worker.send(*(event(stream, number) for stream in STREAMS))
        worker.end(signal.SIGKILL)
        worker.start()
    worker.send(*(event(stream, LAST) for stream in STREAMS))
    numbers = range(1, LAST + 1)
    for view in ("plain", "awaited"):
        worker.wait_until(partial(holds, worker, view, numbers))

    # A view that may not read so much again says so, and goes on.
    records = worker.wait("late", len(STREAMS) * len(late))
    headers: dict[str, Any] = dict(records[0].headers() or [])
    assert headers["view"] == b"short"
    assert b"more than the 3 events" in headers["sequitur-reason"]
    assert headers["sequitur-origin"].startswith(f"{worker.prefix}.in/".encode())

    # Each event has emitted once in each view.
    emitted = [(r.key(), r.value()) for r in worker.wait("emitted", len(STREAMS) * LAST * 3 - 48)]
    assert len(set(emitted)) == len(STREAMS) * LAST
    told = worker.run("explain", "s1", "--view", "plain")
    assert "made anew" in told.stdout, told
    # The view "short" may not rebuild: its late events are bad news, and nothing else is.
    told = worker.run("audit")
    assert told.returncode == 1, told.stdout + told.stderr
    assert "in order, but not complete: 48 late, 48 skipped" in told.stdout
    told = worker.run("views")
    assert told.returncode == 1, told.stdout + told.stderr
    assert worker.end(signal.SIGTERM) == 0

    # What the input no longer has comes from the replay log.
    capture(tmp_path / "replay.toml", worker.records("in"))
    delete(worker.broker, worker.records("in.by-stream"))
    worker.start(SEQUITUR_REPLAY_LOG=f"sqlite:///{tmp_path}/replay.db")
    worker.send(*(event(stream, LAST + 2) for stream in STREAMS))
    worker.wait_until(partial(passed, worker, LAST + 2))
    worker.send(*(event(stream, LAST + 1) for stream in STREAMS))
    for view in ("plain", "awaited"):
        worker.wait_until(partial(holds, worker, view, range(1, LAST + 3)))
    assert worker.end(signal.SIGTERM) == 0
