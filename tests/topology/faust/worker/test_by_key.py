"""Folds by key on the real broker, of events and of what a handler sends: right over kills."""

import signal
from collections import Counter
from functools import partial
from random import Random
from typing import Any

import orjson
import pytest

from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Emit, Inspector, Topology
from topology.faust import compile
from topology.verbs import count, emitted, events, tumbling

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector("tail", "number"), partitions=2, name="in"
)
moves = events(topology, source, time=lambda move: move["time"])
hours = moves.by(lambda move: move["origin"]).window(tumbling(3600))
hours.fold(count(), name="hours").to_rows("hours")

@topology.view("legs", of=source)
def legs(event, state):
    origin = event.content["origin"]
    if "from" in state:
        yield Emit("leg", event.stream, [state["from"], origin])
    state["from"] = origin

leg = emitted(topology, "legs", "leg")
leg.by("-".join).fold(count(), name="pairs").to_rows("pairs")
app = compile(topology, group=prefix, session_timeout=60)
"""
HOUR = 3600


def said(worker: Worker) -> dict[tuple[str, str], int]:
    """The rows as a read store has them."""
    rows: dict[tuple[str, str], int] = {}
    for record in worker.records("hours"):
        for change in orjson.loads(record.value() or b"")["changes"]:
            key = change["key"]
            rows[key["key"], key["start"][:13]] = change["values"]["value"]
    return rows


def pairs(worker: Worker) -> dict[str, int]:
    return {
        change["key"]["key"]: change["values"]["value"]
        for record in worker.records("pairs")
        for change in orjson.loads(record.value() or b"")["changes"]
    }


def said_more(worker: Worker, before: int) -> bool:
    return worker.count("hours") > before


def test_a_fold_by_key_counts_each_event_once_over_kills(worker: Worker) -> None:
    """Exactly once; `test_lookup` does the same at least once."""
    chance = Random(3)
    moves: list[dict[str, Any]] = [
        {"tail": f"N{tail}", "number": number, "origin": chance.choice(["EWR", "JFK", "LGA"]),
         "time": chance.randrange(5 * HOUR)}
        for number in range(1, 61) for tail in range(50)
    ]  # fmt: skip
    wanted = Counter(
        (move["origin"], f"1970-01-01T{move['time'] // HOUR:02}") for move in moves
    )  # fmt: skip
    arrived = [move for move in moves for _ in range(1 + (chance.random() < 0.1))]
    chance.shuffle(arrived)
    worker.start()
    third = len(arrived) // 3
    for at in (0, third, 2 * third):
        before = worker.count("hours")
        part = arrived[at : at + third + 2]
        worker.send(*((move["tail"].encode(), orjson.dumps(move)) for move in part))
        worker.wait_until(partial(said_more, worker, before))
        if at:
            worker.end(signal.SIGKILL)
            worker.start()
    worker.wait_until(lambda: sum(said(worker).values()) >= len(moves))
    assert said(worker) == wanted
    origins = {(move["tail"], move["number"]): move["origin"] for move in moves}
    legs = Counter(
        f"{origins[tail, number - 1]}-{origin}"
        for (tail, number), origin in origins.items()
        if number > 1
    )
    worker.wait_until(lambda: sum(pairs(worker).values()) >= legs.total())
    assert pairs(worker) == legs
    # The rows are there before offsets are committed.
    worker.wait_until(lambda: worker.run("audit").returncode == 0)
    explained = worker.run("explain", "JFK", "--view", "hours")
    assert "JFK" in explained.stdout, explained.stdout + explained.stderr
