"""Verbs on what a handler sends: in its view and its commit unit, without a topic between."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import orjson
import pytest

from tests.topology.torn_units import TornUnits, but_counts
from topology import (
    Emit,
    Event,
    Inspector,
    Topology,
    TopologyTestDriver,
    Upsert,
    rebuild_stream,
    skip,
)
from topology.engine.state.reading import StreamReader
from topology.model.errors import DeclarationError
from topology.testing import Simulator
from topology.testing.simulation.schedule import Schedule
from topology.verbs import Events, as_of_time, count, emitted, events, least, total, tumbling


@dataclass
class Stay:
    """How long somebody was somewhere."""

    place: str
    seconds: float


def visits(partitions: int = 1, **options: Any) -> tuple[Topology, Events[Stay]]:
    """People who move, and what a handler with state makes of it: their stays."""
    graph = Topology("people")
    moves = graph.source("moves", inspector=Inspector("who", "n"), partitions=partitions)

    @graph.view("stays", of=moves, **options)
    def stays(event: Event[Any], state: dict[str, Any]) -> Iterator[Emit]:
        now = event.content
        if state:
            seconds = now["time"] - state["time"]
            yield Emit("stay", event.stream, {"place": state["place"], "seconds": seconds})
        yield Emit("seen", event.stream, {"n": event.sequence})
        state.update(now)

    return graph, emitted(graph, "stays", "stay", of=Stay, time=lambda move: move["time"])


def folded(partitions: int = 1, **options: Any) -> Topology:
    """Tables of the stays: by person and hour, by place, and how many are long."""
    graph, stays = visits(partitions, **options)
    hours = stays.each().window(tumbling(3600)).fold(total(lambda it: it.seconds), name="hours")
    hours.to_rows("hours")
    long = stays.filter(lambda it: it.seconds > 100)
    long.each().fold(count(), name="long").to_rows("long")
    places = stays.by(lambda it: it.place).fold(total(lambda it: it.seconds), name="places")
    places.to_rows("places")
    long.to("long", name="tell", value=lambda it: it.place)
    return graph


def move(who: str, n: int, place: str, time: int) -> dict[str, Any]:
    return {"who": who, "n": n, "place": place, "time": time}


DAY = [move("Ann", 1, "A", 0), move("Ann", 2, "B", 50), move("Ann", 3, "A", 4_000)]


def table(driver: TopologyTestDriver, name: str) -> dict[Any, Any]:
    return {key: (row["value"], row["missing"]) for key, row in driver.table(name).items()}


def test_folds_of_what_a_handler_sends_are_in_its_view_and_nothing_is_written_between() -> None:
    driver = TopologyTestDriver(folded())
    for body in (DAY[1], DAY[2], DAY[0]):
        driver.pipe("moves", body)
    assert {key[1].hour: row for key, row in table(driver, "hours").items()} == {
        0: (50, 0), 1: (3_950, 0)
    }  # fmt: skip
    assert table(driver, "long") == {("Ann",): (1, 0)}
    assert table(driver, "places") == {("A",): (50, 0), ("B",): (3_950, 0)}
    assert driver.read("stay") == []
    assert len(driver.read("seen")) == 3
    assert driver.read_json("long") == ["B"]
    assert list(driver.topology.views) == ["stays", "places"]
    text = str(driver.topology.describe())
    assert "stay → flat_map → filter → fold" in text
    assert driver.audit(contents=True).sound
    assert "Ann" in str(driver.explain("stays", "Ann"))


def test_what_is_given_up_before_an_event_is_missing_in_its_rows() -> None:
    driver = TopologyTestDriver(folded(gap=skip(after=5), late=rebuild_stream()))
    driver.pipe("moves", DAY[0])
    driver.pipe("moves", DAY[2])
    driver.advance(6)
    assert list(table(driver, "hours").values()) == [(4_000, 1)]
    assert table(driver, "places") == {("A",): (4_000, 1)}
    driver.pipe("moves", DAY[1])  # late: the stream is handled again
    assert table(driver, "places") == {("A",): (50, 0), ("B",): (3_950, 0)}
    assert sorted(table(driver, "hours").values()) == [(50, 0), (3_950, 0)]


def test_a_key_of_its_own_fails_the_event_and_says_what_to_do() -> None:
    graph = Topology("people")
    source = graph.source("moves", inspector=Inspector("who", "n"))
    graph.view("odd", of=source, handler=lambda event: [Emit("to", "another", 1)])
    emitted(graph, "odd", "to").each().fold(count(), name="n")
    driver = TopologyTestDriver(graph, strict=False)
    driver.pipe("moves", DAY[0])
    assert "by(…)" in driver.read_json("people.errors")[0]["error"]


def test_what_cannot_run_in_the_handlers_unit_is_refused() -> None:
    graph, stays = visits()
    again: Any = stays
    with pytest.raises(DeclarationError, match="take that already"):
        emitted(graph, "stays", "stay")
    with pytest.raises(DeclarationError, match="no such view"):
        emitted(graph, "nothing", "stay")
    with pytest.raises(DeclarationError, match="view's own"):
        stays.each().fold(count(), name="n", gap=skip(after=1))
    stays.each().fold(count(), name="n")
    with pytest.raises(DeclarationError, match="taken"):
        again.each().fold(count(), name="n")
    with pytest.raises(DeclarationError, match="source of that topic"):
        stays.latest(name="last")
    source = graph.sources["moves"]
    right = events(graph, source, time=lambda it: it["time"]).latest(name="last")
    with pytest.raises(DeclarationError, match="source of that topic"):
        stays.lookup(right, at=as_of_time(keep=1), merge=lambda a, b: a, name="x")
    with pytest.raises(DeclarationError, match="key=…"):
        stays.to_rows("rows", name="rows", columns={"place": lambda it: it.place})

    async def waits(event: Event[Any]) -> list[Emit]:
        return []

    graph.view("async", of=source, handler=waits)
    with pytest.raises(DeclarationError, match="async"):
        emitted(graph, "async", "any")
    graph.view("some", of=source, handler=lambda event: [], accepts={"Moved"})
    with pytest.raises(DeclarationError, match="every event"):
        emitted(graph, "some", "any")


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_the_tables_are_right_whatever_dies(guarantee: Any) -> None:
    def messages(seed: int) -> list[Any]:
        chance = Random(seed)
        return [
            ("moves", move(who, n, chance.choice("AB"), 100 * n + chance.randrange(99)))
            for n in range(1, 7) for who in ("Ann", "Bob", "Eve")
        ]  # fmt: skip

    simulator = Simulator(
        folded(2, gap=skip(after=5), late=rebuild_stream()), messages, guarantee=guarantee,
        runner=TornUnits,
    )  # fmt: skip
    audit = simulator._audit.errors
    simulator._audit.errors = lambda run: [  # type: ignore[method-assign]
        *but_counts(audit(run)), *_wrong(run),
    ]  # fmt: skip
    assert simulator.run(range(40)).handled


def _wrong(run: Schedule) -> list[str]:
    """How the places' table differs from the stays of all that came."""
    came: dict[str, dict[int, Any]] = defaultdict(dict)
    for body in _committed(run, "moves"):
        came[body["who"]][body["n"]] = body
    wanted: dict[str, float] = defaultdict(float)
    for moves in came.values():
        for before, after in pairwise(moves[n] for n in sorted(moves)):
            wanted[before["place"]] += after["time"] - before["time"]
    changes = [change for value in _committed(run, "people.places") for change in value["changes"]]
    rows = {
        change["key"]["key"]: change["values"]["value"]
        for change in changes if change["op"] == "upsert"
    }  # fmt: skip
    return [f"{key}: {rows.get(key)}, not {n}" for key, n in wanted.items() if rows.get(key) != n]


def _committed(run: Schedule, topic: str) -> list[Any]:
    return [
        orjson.loads(value or b"")
        for number in range(2)
        for _, value, _, _ in run.world.log.partition((topic, number)).committed()
    ]


def test_a_handler_that_may_send_other_values_in_a_rebuild_needs_an_aggregate_that_subtracts() -> (
    None
):
    _, stays = visits(gap=skip(after=10), late=rebuild_stream())
    by_place = stays.by(lambda it: it.place)
    with pytest.raises(DeclarationError, match=r"'stays' may send other values.*subtract"):
        by_place.fold(least(lambda it: it.seconds), name="least")
    by_place.fold(total(lambda it: it.seconds), name="places")
    _, stays = visits()
    stays.by(lambda it: it.place).fold(least(lambda it: it.seconds), name="least")


def test_a_handlers_own_cells_are_apart_from_those_of_the_verbs_behind_it() -> None:
    graph = Topology("people")
    moves = graph.source("moves", inspector=Inspector("who", "n", "kind"))
    seen: list[list[str]] = []

    @graph.view("stays", of=moves, closes="Left", retention=60)
    def stays(event: Event[Any], state: dict[str, Any], cells: Any) -> Iterator[Emit]:
        seen.append(list(cells))
        if event.sequence == 2:
            cells.clear()
        cells[f"own {event.sequence}"] = event.sequence
        if event.kind == "Odd":
            cells["stay → all"] = {}
        yield Emit("stay", event.stream, event.sequence)

    stay = emitted(graph, "stays", "stay")
    numbers = stay.each().fold(total(lambda number: number), name="all").to_rows("all")
    numbers.fold(total(lambda row: row.value), name="once").to_rows("once")
    large = numbers.filter(lambda row: row.value > 2).by(lambda row: 1)
    large.fold(count(), name="large").to_rows("large")
    driver = TopologyTestDriver(graph)
    for n, kind in enumerate(["Came", "Went", "Went", "Odd", "Left"], 1):
        driver.pipe("moves", {"who": "Ann", "n": n, "kind": kind})
    assert seen == [[], ["own 1"], ["own 2"], ["own 2", "own 3"], ["own 2", "own 3"]]
    (row,) = driver.table("all").values()
    assert (row["value"], row["missing"], row["final"]) == (11, 1, True)
    assert [row["value"] for row in driver.table("once").values()] == [11]
    assert table(driver, "large") == {("1",): (1, 1)}
    (report,) = driver.read_json("people.errors")
    assert "of the view's verbs" in report["error"]
    reader = StreamReader(graph.views["stays"], driver._storage.stores["stays"], "Ann")
    assert [row["value"] for row in reader.rows("all")] == [11]
    assert [row["value"] for row in reader.rows("once")] == [11]


def test_a_message_is_read_as_it_was_when_it_was_sent_also_by_a_closing_event() -> None:
    graph = Topology("people")
    moves = graph.source("moves", inspector=Inspector("who", "n", "kind"))

    @graph.view("trips", of=moves, closes="End", retention=60)
    def trips(event: Event[Any], state: dict[str, Any]) -> Iterator[Emit | Upsert]:
        state.update(event.content)
        yield Emit("trip", event.stream, state)
        yield Upsert("people", {"who": event.stream}, state)
        state["places"] = {}

    emitted(graph, "trips", "trip").each().fold(
        total(lambda trip: len(trip["places"])), name="places"
    ).to_rows("places")
    driver = TopologyTestDriver(graph)
    for n, kind in enumerate(("Moved", "End"), 1):
        driver.pipe("moves", {"who": "Ann", "n": n, "kind": kind, "places": {"A": 1, "B": 2}})
    assert driver.table("places")["Ann",]["value"] == 4
    assert driver.table("people")["Ann",]["n"] == 2


def test_what_a_closing_event_sends_is_its_state_before_that_ends() -> None:
    graph = Topology("people")
    moves = graph.source("moves", inspector=Inspector("who", "n", "kind"))

    @graph.view("trips", of=moves, closes="End", retention=60)
    def trips(event: Event[Any], state: dict[str, Any]) -> Iterator[Emit | Upsert]:
        state.update(event.content)
        yield Emit("trip", event.stream, state)
        yield Upsert("people", {"who": event.stream}, state)

    driver = TopologyTestDriver(graph)
    driver.pipe("moves", {"who": "Ann", "n": 1, "kind": "End"})
    assert driver.read_json("trip") == [{"who": "Ann", "n": 1, "kind": "End"}]
    assert driver.table("people")["Ann",]["n"] == 1
