"""Linked and monotonic sources, starts, ends and lanes on the real broker, with a kill between."""

import signal
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from topology import (
    Inspector, Topology, Upsert, earliest_seen, linked, monotonic, opened_by, skip,
)
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
inspector = Inspector("id", "n", "kind")

def source(name, sequence=None):
    return topology.source(
        f"{prefix}.{name}", name=name, inspector=inspector, sequence=sequence, partitions=2
    )

def seen(event, state):
    state["seen"] = [*state.get("seen", []), event.sequence]
    yield Upsert("rows", key={"id": event.stream}, values={"seen": str(state["seen"])})

pages = source("pages", linked(previous="before"))
topology.view("linked", of=pages, handler=seen)
topology.view("hasty", of=pages, handler=seen, gap=skip(after=1))
topology.view("settled", of=source("places", monotonic(settle=1)), handler=seen)
orders = source("in")
topology.view("joined", of=orders, handler=seen, start=earliest_seen(after=1))
topology.view("opened", of=orders, handler=seen, start=opened_by("Open"))
topology.view(
    "closing", of=orders, handler=seen, closes="Close", retention=3600, reopen="start",
    start=earliest_seen(after=1),
)
topology.view("lanes", of=orders, handler=seen, lane="lane", start=earliest_seen(after=1))

app = compile(topology, group=prefix, session_timeout=60)
"""
STREAMS = [f"s{n}" for n in range(6)]
Bodies = list[dict[str, Any]]


@pytest.fixture
def worker(worker: Worker, create_topics: Callable[[dict[str, int]], None]) -> Worker:
    create_topics({f"{worker.prefix}.{name}": 2 for name in ("pages", "places")})
    return worker


def send(worker: Worker, topic: str, *bodies: dict[str, Any]) -> None:
    """One event after the other, of each stream.

    All in one partition, so that a worker that finds them there has all of them in one step: no
    time is over between two of them, however slow it is.
    """
    producer = Producer({"bootstrap.servers": worker.broker})
    for body in bodies:
        for stream in STREAMS:
            value = orjson.dumps({"id": stream, "kind": "Go", **body})
            producer.produce(f"{worker.prefix}.{topic}", value, partition=0)
    assert producer.flush(120) == 0


def outputs(worker: Worker, view: str) -> dict[str, list[int]]:
    """Stream → the sequences of its records."""
    found: dict[str, list[int]] = defaultdict(list)
    for record in worker.records(view):
        body = orjson.loads(record.value() or b"")
        found[body["stream"]].append(body["sequence"])
        # The state went with it.
        known = body["changes"][0]["values"]["seen"]
        assert orjson.loads(known)[-len(found[body["stream"]]) :][-1] == body["sequence"]
    return dict(found)


def until(worker: Worker, wanted: dict[str, dict[str, list[int]]]) -> None:
    """Wait until the views have these outputs; lanes have two streams each."""
    end = time.monotonic() + 150
    while (found := {view: outputs(worker, view) for view in wanted}) != wanted:
        log = (worker.folder / "log").read_text()[-3000:]
        assert time.monotonic() < end, f"{found}\n{wanted}\n{log}"
        assert worker.process is not None
        assert worker.process.poll() is None, log
        time.sleep(0.5)


def every(*sequences: int) -> dict[str, list[int]]:
    return {stream: list(sequences) for stream in STREAMS}


def pages(*links: tuple[int, int | None]) -> Bodies:
    return [{"n": n, "before": before} for n, before in links]


def orders(*events: tuple[int, str, str]) -> Bodies:
    return [{"n": n, "kind": kind, "lane": lane} for n, kind, lane in events]


def lanes(a: list[int], b: list[int]) -> dict[str, list[int]]:
    return {f"{stream}|{lane}": each for stream in STREAMS for lane, each in (("a", a), ("b", b))}


def test_every_order_comes_out_over_a_kill(worker: Worker) -> None:
    # All of it is there when the worker starts: what comes late is given up.
    send(worker, "pages", *pages((3, 1), (1, None), (12, 7)))
    send(worker, "places", {"n": 30}, {"n": 10}, {"n": 20})
    send(
        worker,
        "in",
        *orders((6, "Go", "a"), (5, "Open", "b"), (7, "Close", "a"), (6, "Go", "a")),
    )
    worker.start()
    until(
        worker,
        {
            "linked": every(1, 3),
            "hasty": every(1, 3, 12),
            "settled": every(10, 20, 30),
            "joined": every(5, 6, 7),
            "opened": every(5, 6, 7),
            "closing": every(5, 6, 7),
            "lanes": lanes([6, 7], [5]),
        },
    )
    worker.end(signal.SIGKILL)

    send(worker, "pages", *pages((7, 3), (15, 12)))
    send(worker, "places", {"n": 25}, {"n": 50}, {"n": 40}, {"n": 30})
    send(
        worker,
        "in",
        *orders((9, "Go", "b"), (8, "Open", "a"), (6, "Go", "b"), (4, "Go", "a"), (7, "Go", "b")),
    )
    worker.start()
    until(
        worker,
        {
            "linked": every(1, 3, 7, 12, 15),
            "hasty": every(1, 3, 12, 15),
            "settled": every(10, 20, 30, 40, 50),
            "joined": every(5, 6, 7, 8, 9),
            "opened": every(5, 6, 7, 8, 9),
            "closing": every(5, 6, 7, 8, 9),
            "lanes": lanes([6, 7, 8], [5, 6, 7]),
        },
    )
    # 7 of hasty, 25 of settled, 4 of those that have begun above it; in closing and opened, too.
    late: dict[str, set[int]] = defaultdict(set)
    for record in worker.records("late"):
        headers: dict[str, Any] = dict(record.headers() or [])
        late[headers["view"].decode()].add(int(headers["sequence"]))
    assert late == {"hasty": {7}, "settled": {25}, "joined": {4}, "opened": {4}, "closing": {4},
                    "lanes": {4}}  # fmt: skip
    last = orjson.loads(worker.wait("closing", 30)[-1].value() or b"")
    assert last["changes"][0]["values"]["seen"] == "[8, 9]"
    # Late events were planted, and are bad news; nothing else is.
    told = worker.run("audit")
    assert told.returncode == 1, told.stdout + told.stderr
    assert "in order, but not complete: 36 late, 6 skipped, 6 waiting" in told.stdout
    told = worker.run("views")
    assert told.returncode == 1, told.stdout + told.stderr
    told = worker.run("explain", "s1|b", "--view", "lanes")
    assert told.returncode == 1, "it waits"
    assert worker.end(signal.SIGTERM) == 0
