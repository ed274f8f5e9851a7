"""Lookups in the simulator: right whatever dies between the hops."""

from collections import defaultdict
from random import Random
from typing import Any

import orjson
import pytest

from tests.topology.torn_units import TornUnits, but_counts
from tests.topology.verbs.lookup_model import (
    Body,
    Row,
    expected,
    flights,
    move,
    report,
    topic_of,
    windy_of,
)
from topology import rebuild_stream, skip
from topology.testing import Simulator
from topology.testing.simulation.schedule import Schedule
from topology.verbs import as_of_sequence, as_of_time, lookup_join

SEEDS = 40
PARTITIONS = 2
REBUILT = {"gap": skip(after=5), "late": rebuild_stream()}


def messages(seed: int) -> list[Any]:
    chance = Random(seed)
    bodies: list[Body] = []
    for number in range(1, 6):
        bodies += [
            move(f"N{tail}", number, chance.choice("AB"), chance.randrange(100), number % 4)
            for tail in (1, 2, 3)
        ]
        bodies += [
            report(origin, number, 15 * number + chance.randrange(9), chance.randrange(40))
            for origin in "AB"
        ]
    return [(topic_of(body), body) for body in bodies]


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("what", ["time", "few at once", "rebuilds", "sequence"])
def test_a_lookup_is_right_whatever_dies_between_the_hops(
    guarantee: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "few at once":
        monkeypatch.setattr(lookup_join, "MOST", 2)
        monkeypatch.setattr(lookup_join, "DROPPED", 1)
    at = as_of_time(wait=3, keep=10**6)
    if what == "sequence":
        at = as_of_sequence(left=lambda move: move["saw"])
    options = REBUILT if what == "rebuilds" else None
    graph = flights(at, options, options, PARTITIONS)
    simulator = Simulator(graph, messages, guarantee=guarantee, runner=TornUnits)
    audit = simulator._audit.errors
    simulator._audit.errors = lambda run: [  # type: ignore[method-assign]
        *but_counts(audit(run)), *_wrong_rows(run, what),
    ]  # fmt: skip
    assert simulator.run(range(SEEDS)).handled


def _wrong_rows(run: Schedule, what: str) -> list[str]:
    """How the tables differ from what arrived: without a gap, or all of it where late events have
    their streams rebuilt."""
    came: dict[str, dict[int, Body]] = defaultdict(dict)
    for topic in ("moves", "weather"):
        for body in _values(run, topic):
            stream = body.get("tail") or body["origin"]
            came[stream][body.get("number") or body["n"]] = body
    handled: list[Body] = []
    for bodies in came.values():
        numbers = sorted(bodies)
        whole = [n for at, n in enumerate(numbers, 1) if n == at or what == "rebuilds"]
        handled += [bodies[n] for n in whole]
    wanted = expected(handled, what != "sequence")
    rows: dict[tuple[str, int], Row] = {}
    for change in _changes(run, "flown"):
        row = change["values"]
        rows[change["key"]["stream"], change["key"]["sequence"]] = (
            row["wind"], row["missing"], row["final"],
        )  # fmt: skip
    wrong = [f"{key}: {row}, not {wanted.get(key)}" for key, row in rows.items()
             if wanted.get(key) != row]  # fmt: skip
    wrong += [f"{key} is not there" for key, row in wanted.items() if row[2] and key not in rows]
    windy: dict[str, tuple[int, int]] = {}
    for change in _changes(run, "windy"):
        windy.pop(change["key"]["key"], None)
        if change["op"] == "upsert":
            windy[change["key"]["key"]] = change["values"]["value"], change["values"]["missing"]
    if not wrong and windy != (right := windy_of(rows, handled)):
        wrong.append(f"windy says {windy}, not {right}")
    return wrong


def _changes(run: Schedule, view: str) -> list[Any]:
    return [change for value in _values(run, f"flights.{view}") for change in value["changes"]]


def _values(run: Schedule, topic: str) -> list[Any]:
    log = run.world.log
    return [
        orjson.loads(value or b"")
        for number in range(PARTITIONS)
        for _, value, _, _ in log.partition((topic, number)).committed()
    ]
