"""A lookup on the real broker: right over kills, between its views too."""

import signal
from functools import partial
from random import Random
from typing import Any

import orjson
import pytest
from confluent_kafka.cimpl import NewTopic

from sequitur.local.ports import free_port
from tests.conftest import make_topics
from tests.topology.faust.worker.test_queries import asked
from tests.topology.faust.worker_process import Worker
from tests.topology.verbs.lookup_model import Body, Row, expected, move, report, windy_of

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Inspector, Topology
from topology.faust import compile
from topology.verbs import as_of_time, count, events

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
moves = topology.source(
    prefix + ".in", inspector=Inspector("tail", "number"), partitions=2, name="in"
)
weather = topology.source(
    prefix + ".weather", inspector=Inspector("origin", "n"), partitions=2, name="weather"
)
wind = events(topology, weather, time=lambda report: report["time"]).latest(name="wind")
flown = events(topology, moves, time=lambda move: move["time"]).lookup(
    wind,
    key=lambda move: move["origin"],
    at=as_of_time(wait=1, keep=10**6),
    merge=lambda move, report: {"origin": move["origin"], "wind": report and report["wind"]},
    name="flown",
)
flown.to_rows("flown", {"wind": lambda found: found["wind"]})
windy = flown.filter(lambda found: (found["wind"] or 0) > 20).by(lambda found: found["origin"])
windy.fold(count(), name="windy").to_rows("windy")
app = compile(topology, group=prefix, session_timeout=60)
"""


def changes(worker: Worker, view: str) -> list[Any]:
    records = [orjson.loads(record.value() or b"") for record in worker.records(view)]
    return [change for record in records for change in record["changes"]]


def said(worker: Worker) -> dict[tuple[str, int], Row]:
    """The rows as a read store has them."""
    return {
        (change["key"]["stream"], change["key"]["sequence"]): (
            change["values"]["wind"], change["values"]["missing"], change["values"]["final"],
        )
        for change in changes(worker, "flown")
    }  # fmt: skip


def windy(worker: Worker) -> dict[str, tuple[int, int]]:
    rows: dict[str, tuple[int, int]] = {}
    for change in changes(worker, "windy"):
        rows.pop(change["key"]["key"], None)
        if change["op"] == "upsert":
            rows[change["key"]["key"]] = change["values"]["value"], change["values"]["missing"]
    return rows


def answered(port: int, origin: str) -> dict[tuple[str, int], Row]:
    """The rows of an airport as the worker has them."""
    rows = asked(port, "flown", origin, limit="1000")[1].get("rows", ())
    return {
        (row["stream"], row["sequence"]): (row["value"]["wind"], row["missing"], row["final"])
        for row in rows
    }


def said_more(worker: Worker, before: int) -> bool:
    return worker.count("flown.by-key") > before


def test_a_lookup_finds_what_merge_asof_finds_over_kills(worker: Worker) -> None:
    """At least once; `test_by_key` does the same exactly once."""
    chance = Random(3)
    airports = ["EWR", "JFK", "LGA"]
    bodies: list[Body] = [
        move(f"N{tail}", number, chance.choice(airports), chance.randrange(1000))
        for number in range(1, 21) for tail in range(20)
    ] + [
        report(origin, n, 10 * n + chance.randrange(10), chance.randrange(40))
        for n in range(1, 101) for origin in airports
    ]  # fmt: skip
    wanted = expected(bodies)
    arrived = [body for body in bodies for _ in range(1 + (chance.random() < 0.1))]
    chance.shuffle(arrived)
    make_topics(worker.broker, NewTopic(f"{worker.prefix}.weather", 2, 1))
    port = free_port()
    guarantee = "at_least_once"
    settings = {"SEQUITUR_GUARANTEE": guarantee, "SEQUITUR_QUERIES": str(port)}
    worker.start(**settings)
    third = len(arrived) // 3
    for at in (0, third, 2 * third):
        before = worker.count("flown.by-key")
        for field, topic in (("tail", "in"), ("n", "weather")):
            part = [body for body in arrived[at : at + third + 2] if field in body]
            keys = [body.get("tail") or body["origin"] for body in part]
            sent = zip(map(str.encode, keys), map(orjson.dumps, part), strict=True)
            worker.send(*sent, topic=topic)
        worker.wait_until(partial(said_more, worker, before))
        if at:
            worker.end(signal.SIGKILL)
            worker.start(**settings)
    worker.wait_until(lambda: said(worker) == wanted)
    worker.wait_until(lambda: windy(worker) == windy_of(wanted, bodies))
    wanted_there = {
        (body["tail"], body["number"]): wanted[body["tail"], body["number"]]
        for body in bodies
        if body.get("tail") and body["origin"] == "JFK"
    }
    worker.wait_until(lambda: answered(port, "JFK") == wanted_there)
    # The rows are there before what ends a wait has waited, and before offsets are committed.
    worker.wait_until(lambda: worker.run("audit", SEQUITUR_GUARANTEE=guarantee).returncode == 0)
    explained = worker.run("explain", "JFK", "--view", "flown", SEQUITUR_GUARANTEE=guarantee)
    assert "JFK" in explained.stdout, explained.stdout + explained.stderr
