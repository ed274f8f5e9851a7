"""Lookups: rows that are right whatever the order of arrival, and in the end final."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from random import Random
from typing import Annotated, Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tests.examples import some
from tests.topology.verbs.lookup_model import (
    Body,
    expected,
    flights,
    looked_up,
    move,
    report,
    said,
    topic_of,
    windy,
    windy_of,
    with_wind,
)
from topology import Headers, Inspector, Topology, TopologyTestDriver, header, rebuild_stream, skip
from topology.engine.state.reading import StreamReader
from topology.inspectors.normalise import StreamType
from topology.model.errors import DeclarationError
from topology.spark.supported import check_supported
from topology.testing import Sent, Simulator
from topology.testing.simulation.world import Guarantee
from topology.verbs import as_of_sequence, as_of_time, count, events, least, lookup_join, tumbling
from topology.verbs.as_of import AsOf
from topology.verbs.lookup_join import LookupJoin
from topology.verbs.lookup_records import LookupRecord

BY_SEQUENCE: AsOf[Any] = as_of_sequence(left=lambda move: move["saw"])
REBUILT = {"gap": skip(after=10), "late": rebuild_stream()}
GUID = "6f9619ff-8b86-d011-b42d-00c04fc964ff"


def day(chance: Random, moves: int = 8, reports: int = 6) -> list[Body]:
    """Movements of three aircraft and reports of two airports, in order."""
    found: list[Body] = []
    for tail in ("N1", "N2", "N3"):
        times = sorted(chance.randrange(100) for _ in range(moves))
        found += [
            move(
                tail, number, chance.choice(["JFK", "LGA"]), time, chance.randrange(reports + 2),
                chance.choice(["OUT", "OUT", "IN"]),
            )
            for number, time in enumerate(times, 1)
        ]  # fmt: skip
    for origin in ("JFK", "LGA"):
        times = sorted(chance.randrange(100) for _ in range(reports))
        found += [report(origin, n, time, chance.randrange(40)) for n, time in enumerate(times, 1)]
    return found


def run(graph: Topology, bodies: list[Body], pause: float = 0) -> TopologyTestDriver:
    driver = TopologyTestDriver(graph)
    for body in bodies:
        driver.pipe(topic_of(body), body)
        if pause:
            driver.advance(pause)
    driver.advance(100)
    audit = driver.audit(contents=True)
    assert audit.sound, audit
    return driver


def hashed(driver: TopologyTestDriver) -> str:
    tables = [sorted(said(driver).items()), sorted(windy(driver).items())]
    return sha256(repr(tables).encode()).hexdigest()


@pytest.mark.parametrize("by_time", [True, False])
def test_twenty_orders_of_arrival_have_one_hash_and_the_rows_of_merge_asof(by_time: bool) -> None:
    chance = Random(11)
    bodies = day(chance)
    at = None if by_time else BY_SEQUENCE
    rows = expected(bodies, by_time)
    if not by_time:
        rows = {key: row for key, row in rows.items() if row[2]}  # others wait for what they saw
    hashes = set()
    for _ in range(20):
        arrived = [body for body in bodies for _ in range(1 + (chance.random() < 0.2))]
        chance.shuffle(arrived)
        driver = run(flights(at), arrived)
        assert said(driver) == rows
        assert windy(driver) == windy_of(rows, bodies)
        hashes.add(hashed(driver))
    assert len(hashes) == 1


@settings(max_examples=some(20), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([True, False]))
def test_what_is_lost_is_missing_and_the_rest_is_as_what_arrived(seed: int, by_time: bool) -> None:
    chance = Random(seed)
    bodies = [body for body in day(chance) if "tail" in body or chance.random() < 0.6]
    chance.shuffle(bodies)
    at = as_of_time(wait=0, keep=86_400) if by_time else BY_SEQUENCE
    driver = run(flights(at, right={"gap": skip(after=10)}), bodies)
    wanted = expected(bodies, by_time)
    if not by_time:
        wanted = {key: row for key, row in wanted.items() if row[2]}
    assert said(driver) == wanted


@settings(max_examples=some(25), deadline=None)
@given(st.integers(0, 10**6))
def test_a_rebuild_of_either_side_gives_the_tables_of_a_run_in_order(seed: int) -> None:
    chance = Random(seed)
    bodies = day(chance, moves=4, reports=4)
    in_order = hashed(run(flights(), bodies))
    chance.shuffle(bodies)
    driver = run(flights(left=REBUILT, right=REBUILT), bodies, pause=11)
    assert hashed(driver) == in_order


def test_a_provisional_row_goes_out_after_the_wait_and_is_revised_two_hops_down() -> None:
    driver = TopologyTestDriver(flights())
    driver.pipe("weather", report("JFK", 1, 50, 30))
    driver.pipe("moves", move("N1", 1, "JFK", 100))
    driver.advance(59)
    assert said(driver) == {}
    driver.advance(1)
    assert said(driver) == {("N1", 1): (30, 0, False)}
    assert windy(driver) == {"JFK": (1, 0)}
    driver.pipe("weather", report("JFK", 2, 100, 10))
    assert said(driver) == {("N1", 1): (10, 0, False)}  # another one may have the same time
    assert windy(driver) == {}
    driver.pipe("weather", report("JFK", 3, 100, 40))
    driver.pipe("weather", report("JFK", 4, 101, 10))
    assert said(driver) == {("N1", 1): (40, 0, True)}
    assert windy(driver) == {"JFK": (1, 0)}
    assert driver.audit(contents=True).sound


def test_rows_that_begin_to_wait_at_about_the_same_time_wait_together() -> None:
    driver = TopologyTestDriver(flights())
    moves = [(None, move(f"N{tail}", 1, "JFK", 100)) for tail in range(600)]
    driver.pipe_batch("moves", moves)
    driver.advance(30)
    driver.pipe("moves", move("late", 1, "JFK", 100))
    groups = driver.read_json("flights.flown.waits")
    assert groups == [["over", [[group]]] for group in range(1, 5)]  # of 250, 250, 100 and 1
    driver.advance(30)
    assert len(said(driver)) == 600
    driver.advance(30)
    assert len(said(driver)) == 601
    driver.pipe("weather", report("JFK", 1, 101, 30))
    assert {row[2] for row in said(driver).values()} == {True}
    assert driver.audit(contents=True).sound


@pytest.mark.parametrize("wait", [60, None])
def test_many_large_rows_that_go_out_at_once_are_several_records(wait: float | None) -> None:
    graph = Topology("flights")
    flown, _ = looked_up(graph, as_of_time(wait=wait, keep=1000))
    flown.to_rows("flown", {"text": lambda found: "x" * 8_000 + found["origin"]})
    driver = TopologyTestDriver(graph)
    for tail in range(200):
        driver.pipe("moves", move(f"N{tail}", 1, "JFK", 100) | {"text": "x" * 8_000})
    if wait is None:
        driver.pipe("weather", report("JFK", 1, 101, 30))
    driver.advance(61)
    assert len(driver.table("flown")) == 200
    assert driver.counts("flown").failed == 0


@pytest.mark.parametrize("wait_is_over", [False, True])
def test_a_large_row_behind_small_ones_goes_out_by_itself(wait_is_over: bool) -> None:
    join = LookupJoin(as_of_time(wait=60, keep=1000))
    state: Body = {}
    cells: Body = {}

    def take(kind: str, items: list[Any], stream: str = "") -> tuple[list[int], bool]:
        found = join.take(state, cells, LookupRecord(kind, items, stream, 1, 0))
        return [row.time for row in found.found], found.more

    for time, letters in enumerate((10_000, 10_000, 900_000, 10_000), 1):
        take("left", [[1, time, [[0, time]], "x" * letters]], f"N{time}")
    what: tuple[str, list[Any]] = ("right", [[1, 9, 0, ["wind"]]])
    if wait_is_over:
        what = ("over", [[1]])
    found = [take(*what)]
    while found[-1][1]:
        found.append(take("on", []))
    assert found == [([1, 2], True), ([3], True), ([4], False)]


def test_of_equal_times_the_later_in_sequence_is_found() -> None:
    driver = TopologyTestDriver(flights())
    for body in [move("N1", 1, "JFK", 100), report("JFK", 1, 100, 1), report("JFK", 2, 100, 2)]:
        driver.pipe(topic_of(body), body)
    driver.pipe("weather", report("JFK", 3, 101, 3))
    assert said(driver) == {("N1", 1): (2, 0, True)}


def test_a_sequence_that_was_seen_is_waited_for_or_for_its_being_given_up() -> None:
    driver = TopologyTestDriver(flights(BY_SEQUENCE, right={"gap": skip(after=10)}))
    driver.pipe("moves", move("N1", 1, "JFK", 999, saw=0))
    assert said(driver) == {("N1", 1): (None, 0, True)}  # it saw none
    driver.pipe("moves", move("N1", 2, "JFK", 5, saw=3))
    driver.pipe("weather", report("JFK", 1, 700, 7))
    driver.pipe("weather", report("JFK", 5, 700, 8))
    assert ("N1", 2) not in said(driver)
    driver.advance(10)  # 2, 3 and 4 are given up: two of them up to what was seen
    assert said(driver)["N1", 2] == (7, 2, True)


def test_what_is_kept_no_more_goes_to_the_late_topic_with_the_reason() -> None:
    driver = TopologyTestDriver(flights(as_of_time(keep=50, history=1)))
    for n, time in enumerate([10, 20, 100, 200], 1):
        driver.pipe("weather", report("JFK", n, time, n))
    driver.pipe("moves", move("N1", 1, "JFK", 99))
    driver.pipe("moves", move("N1", 2, "JFK", 100))
    driver.pipe("weather", report("JFK", 5, 149, 9))
    assert said(driver) == {("N1", 2): (3, 0, True)}
    left, right = driver.read("flights.late")
    reasons = [dict(record.headers)["sequitur-reason"] or b"" for record in (left, right)]
    assert all(b"kept no more" in reason for reason in reasons)
    assert b"00:01:39" in reasons[0]
    assert b"00:02:29" in reasons[1]
    state = driver.state("flown", "JFK")
    assert state["clock"] == 200_000


def failing(at: AsOf[Any]) -> Topology:
    """Departures of which some cannot be made a row: by `merge`, a filter, or a column."""

    def merged(move: Body, report: Body | None) -> Body:
        found = with_wind(move, report)
        return found | {"share": 1 / (13 - (found["wind"] or 0))}

    graph = Topology("flights")
    moves, weather = (
        graph.source(topic, inspector=Inspector(stream, number))
        for topic, stream, number in (("moves", "tail", "number"), ("weather", "origin", "n"))
    )
    wind = events(graph, weather, time=lambda report: report["time"]).latest(name="wind")
    found = events(graph, moves, time=lambda move: move["time"]).lookup(
        wind, key=lambda move: move["origin"], at=at, merge=merged, name="flown"
    )
    found.to_rows("flown", {"wind": lambda it: float("nan") if it["wind"] == 17 else it["wind"]})
    found.by(lambda it: it["origin"]).fold(count(), name="all").to_rows("all")
    windy = found.filter(lambda it: it["wind"] > 20)
    windy.by(lambda it: it["origin"]).fold(count(), name="windy").to_rows("windy")
    return graph


@pytest.mark.parametrize("wait", [None, 0])
def test_a_row_that_cannot_be_made_holds_up_no_other(wait: float | None) -> None:
    """One that finds nothing fails in the filter, one that finds 13 in `merge`, and one that finds
    17 when its output is written."""
    reports = [report("JFK", n, 10 * n, wind) for n, wind in enumerate([30, 13, 17, 31, 0], 1)]
    moves = [move("N1", number, "JFK", 10 * number - 5) for number in range(1, 6)]
    chance, tables = Random(7), set[str]()
    for order in (moves + reports, reports + moves, chance.sample(moves + reports, 10)):
        driver = TopologyTestDriver(failing(as_of_time(wait=wait, keep=100)))
        driver.pipe_batch("weather", [(None, body) for body in order if "n" in body][:2])
        for body in order:
            driver.pipe(topic_of(body), body)
        assert said(driver) == {("N1", 2): (30, 0, True), ("N1", 5): (31, 0, True)}
        assert windy(driver) == {"JFK": (2, 0)}
        tables.add(hashed(driver))
        errors = driver.read_json("flights.errors")
        assert {each["done"] for each in errors} == {"handled but for this row"}
        texts = {each["error"].partition("sequence ")[2] for each in errors}
        kinds = [("1", "TypeError"), ("3", "ZeroDivisionError"), ("4", "RefusedValue")]
        for number, kind in kinds:
            assert any(text.startswith(f"{number} cannot be made: {kind}") for text in texts)
        assert driver.counts("flown").failed == 0
        report_of = driver.audit(contents=True)
        assert report_of.sound
        assert report_of.bad_news == [f"{len(errors)} rows that could not be made"]
        assert not driver.explain("flown", "JFK").well
    assert len(tables) == 1


def test_of_many_rows_that_cannot_be_made_all_are_counted() -> None:
    driver = TopologyTestDriver(failing(as_of_time(wait=None, keep=100)))
    for number in range(1, 26):
        driver.pipe("moves", move("N1", number, "JFK", 5))
    driver.pipe("weather", report("JFK", 1, 3, 13))
    driver.pipe("weather", report("JFK", 2, 10, 1))
    errors = driver.read_json("flights.errors")
    assert len(errors) == 11
    assert "15 more rows of this event cannot be made" in errors[-1]["error"]
    assert driver.audit(contents=True).bad_news == ["25 rows that could not be made"]


@pytest.mark.parametrize(
    ("kind", "written"), [("int", "007"), ("guid", "{6F9619FF-8B86-D011-B42D-00C04FC964FF}")]
)
def test_a_key_is_read_as_the_ids_of_the_right_are(kind: StreamType, written: str) -> None:
    graph = Topology("shop")
    orders = events(graph, graph.source("orders", inspector=Inspector("id", "number")))
    stock = graph.source("stock", inspector=Inspector("item", "n", stream_type=kind))
    found = orders.lookup(
        events(graph, stock).latest(name="latest"), key=lambda order: order["item"],
        at=as_of_sequence(left=lambda order: 1),
        merge=lambda order, item: item and item["left"], name="found",
    )  # fmt: skip
    found.to_rows("found", {"left": lambda left: left})
    driver = TopologyTestDriver(graph)
    driver.pipe("stock", {"item": written, "n": 1, "left": 5})
    driver.pipe("orders", {"id": "a", "number": 1, "item": written})
    assert [row["left"] for row in driver.table("found").values()] == [5]


@pytest.mark.parametrize(
    ("kind", "right", "left"),
    [
        ("auto", GUID, GUID.upper()),
        ("auto", GUID.upper(), f"{{{GUID}}}"),
        ("text", GUID.upper(), GUID.upper()),
        ("guid", GUID.replace("-", ""), GUID.upper()),
    ],
)
def test_all_records_of_a_lookups_key_are_in_one_partition(
    kind: StreamType, right: str, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left, right, those that wait, those that go on: a record's partition is that of its key."""
    monkeypatch.setattr(lookup_join, "MOST", 1)
    graph = Topology("shop")
    orders = graph.source("orders", inspector=Inspector("id", "number"))
    stock = graph.source("stock", inspector=Inspector("item", "n", stream_type=kind))
    found = events(graph, orders, time=lambda order: order["time"]).lookup(
        events(graph, stock, time=lambda item: item["time"]).latest(name="latest"),
        key=lambda order: order["item"], at=as_of_time(wait=60, keep=1000),
        merge=lambda order, item: item and item["left"], name="found",
    )  # fmt: skip
    found.to_rows("found", {"left": lambda left: left})
    driver = TopologyTestDriver(graph)
    driver.pipe("stock", {"item": right, "n": 1, "time": 1, "left": 5})
    for number in (1, 2, 3):
        driver.pipe("orders", {"id": "a", "number": number, "time": 2, "item": left})
    driver.advance(61)
    driver.pipe("stock", {"item": right, "n": 2, "time": 3, "left": 4})
    rows = [(row["left"], row["final"]) for row in driver.table("found").values()]
    assert rows == [(5, True)] * 3
    records = [*driver.read("shop.found.by-key"), *driver.read("shop.found.waits")]
    kinds = {orjson.loads(record.value or b"")[0] for record in records}
    assert kinds == {"left", "right", "over", "on"}
    assert len({record.key for record in records}) == 1
    for written in (right, left):
        assert driver.topology.views["found"].stream_id(written).encode() == records[0].key


def test_another_inspector_of_the_right_has_ids_of_the_same_type() -> None:
    graph = Topology("shop")
    orders = events(graph, graph.source("orders", inspector=Inspector("id", "number")))
    items = events(graph, graph.source("stock", inspector=Inspector("item", "n")))
    items.by(lambda item: item["item"]).fold(count(), name="items").to_rows("items")
    right = items.latest(name="latest")
    guids = Inspector("item", "n", stream_type="guid")
    graph.with_inspectors({"stock": guids})  # nothing looks there yet
    orders.lookup(
        right, key=lambda order: order["item"], at=as_of_sequence(left=lambda order: 1),
        merge=lambda order, item: item and item["left"], name="found",
    ).to_rows("found", {"left": lambda left: left})  # fmt: skip
    with pytest.raises(DeclarationError, match=r"source 'stock': a lookup reads its ids as "):
        graph.with_inspectors({"stock": guids})
    other = {"stock": Inspector("part", "n"), "orders": Inspector("id", "n", stream_type="int")}
    driver = TopologyTestDriver(graph.with_inspectors(other))
    driver.pipe("stock", {"part": "P", "item": "P", "n": 1, "left": 5})
    driver.pipe("orders", {"id": 1, "n": 1, "item": "P"})
    assert [row["left"] for row in driver.table("found").values()] == [5]


def test_an_id_of_several_fields_is_looked_up_however_long_it_is() -> None:
    graph = Topology("shop")
    orders = graph.source("orders", inspector=Inspector(("a", "b"), "n"))
    stock = graph.source("stock", inspector=Inspector(("a", "b"), "n"))
    events(graph, orders).lookup(
        events(graph, stock).latest(name="latest"), at=as_of_sequence(left=lambda order: 1),
        merge=lambda order, item: item and item["left"], name="found",
    ).to_rows("found", {"left": lambda left: left})  # fmt: skip
    driver = TopologyTestDriver(graph)
    both = {"a": "x" * 300, "b": "y" * 300, "n": 1}
    driver.pipe("stock", {**both, "left": 5})
    driver.pipe("orders", both)
    assert [row["left"] for row in driver.table("found").values()] == [5]
    assert not driver.read("shop.malformed")


def test_a_key_that_is_too_long_fails_its_event_and_no_table_looks_whole() -> None:
    graph = Topology("shop")
    orders = events(graph, graph.source("orders", inspector=Inspector("id", "number")))
    orders.by(lambda order: order["key"]).fold(count(), name="keys").to_rows("keys")
    driver = TopologyTestDriver(graph)
    for number, key in enumerate(["x" * 512, "x" * 513, "y"], 1):
        driver.pipe("orders", {"id": "a", "number": number, "key": key})
    rows = {row["key"]: (row["value"], row["missing"]) for row in driver.table("keys").values()}
    assert rows == {"x" * 512: (1, 0), "y": (1, 1)}
    assert driver.counts("keys-by").failed == 1
    assert not driver.read("shop.malformed")


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_crashes_change_nothing_where_rows_cannot_be_made(guarantee: Guarantee) -> None:
    reports = [report("JFK", n, 10 * n, wind) for n, wind in enumerate([30, 13, 17, 31, 0], 1)]
    moves = [move("N1", number, "JFK", 10 * number - 5) for number in range(1, 6)]
    sent = [Sent(topic_of(body), body) for body in (*moves, *reports)]
    graph = failing(as_of_time(wait=0, keep=100))
    assert Simulator(graph, sent, guarantee=guarantee).run(range(20)).seeds == 20


def test_what_a_filter_leaves_out_is_not_late_however_old() -> None:
    graph = Topology("flights")
    moves, weather = (
        graph.source(topic, inspector=Inspector(stream, number))
        for topic, stream, number in (("moves", "tail", "number"), ("weather", "origin", "n"))
    )
    reports = events(graph, weather, time=lambda report: report["time"])
    windy = reports.filter(lambda report: report["wind"] > 5).latest(name="wind")
    found = events(graph, moves, time=lambda move: move["time"]).lookup(
        windy,
        key=lambda move: move["origin"],
        at=as_of_time(keep=50),
        merge=with_wind,
        name="found",
    )
    found.to_rows("found", {"wind": lambda found: found["wind"]})
    driver = TopologyTestDriver(graph)
    for n, (time, wind) in enumerate([(100, 9), (500, 1), (90, 2), (80, 8)], 1):
        driver.pipe("weather", report("JFK", n, time, wind))
    driver.pipe("moves", move("N1", 1, "JFK", 200))
    (late,) = driver.read("flights.late")
    assert orjson.loads(late.value or b"")[1][0][0] == 4
    (row,) = driver.table("found").values()
    assert (row["wind"], row["final"]) == (9, True)


@settings(max_examples=some(40), deadline=None)
@given(st.integers(0, 10**6))
def test_how_far_a_side_is_ahead_does_not_matter_for_what_is_kept(seed: int) -> None:
    """Times go back within a stream here, by more than is kept, too."""
    chance = Random(seed)
    moves = [
        move(tail, number, "JFK", chance.randrange(1_000)) for tail in ("N1", "N2")
        for number in range(1, 8)
    ]  # fmt: skip
    reports = [report("JFK", n, 40 * n + chance.randrange(-150, 40), n) for n in range(1, 26)]
    tables, refused = set(), set()
    shuffled = [chance.sample(moves + reports, len(moves + reports)) for _ in range(2)]
    for order in (moves + reports, reports + moves, *shuffled):
        driver = run(flights(as_of_time(wait=0, keep=60)), order)
        tables.add(hashed(driver))
        late = [record.value or b"" for record in driver.read("flights.late")]
        assert all(orjson.loads(value)[0] == "right" for value in late)
        refused.add(tuple(sorted(orjson.loads(value)[1][0][0] for value in late)))
    assert (len(tables), len(refused)) == (1, 1)


def test_a_report_makes_rows_final_that_are_older_than_what_is_kept() -> None:
    driver = TopologyTestDriver(flights(as_of_time(keep=50)))
    driver.pipe("weather", report("JFK", 1, 0, 30))
    for number, time in enumerate((10, 20, 30), 1):
        driver.pipe("moves", move("N1", number, "JFK", time))
    driver.pipe("weather", report("JFK", 2, 500, 1))
    assert set(said(driver).values()) == {(30, 0, True)}


def test_a_late_report_revises_rows_to_come_of_any_time_and_is_refused_for_those_dropped() -> None:
    driver = TopologyTestDriver(flights(as_of_time(keep=50), right=REBUILT))
    driver.pipe("weather", report("JFK", 1, 100, 1))
    driver.pipe("weather", report("JFK", 3, 300, 3))
    driver.pipe("weather", report("JFK", 5, 500, 5))
    driver.advance(11)
    driver.pipe("weather", report("JFK", 6, 1_000, 6))
    driver.pipe("weather", report("JFK", 4, 400, 4))  # no row is there yet
    driver.pipe("moves", move("N1", 1, "JFK", 250))
    driver.pipe("moves", move("N1", 2, "JFK", 450))
    assert said(driver) == {("N1", 1): (1, 1, True), ("N1", 2): (4, 0, True)}
    assert not driver.read("flights.late")
    driver.pipe("weather", report("JFK", 2, 200, 2))  # a row is told that is kept no more
    assert said(driver)["N1", 1] == (1, 1, True)
    (late,) = driver.read("flights.late")
    assert b"kept no more" in (dict(late.headers)["sequitur-reason"] or b"")


def test_rows_and_values_that_are_kept_no_more_are_dropped() -> None:
    driver = TopologyTestDriver(flights(as_of_time(keep=50, wait=0, history=20)))
    for n in range(1, 200):
        driver.pipe("weather", report("JFK", n, 10 * n, 30))
        driver.pipe("moves", move("N1", n, "JFK", 10 * n + 5))
    rows = driver._runner.view("flown").state.cells.keys("JFK")
    assert len([key for key in rows if key.startswith("row ")]) < 10
    assert len([key for key in rows if key.startswith("value ")]) < 30
    assert len([key for key in rows if key.startswith("by windy")]) < 10
    assert driver.state("flown", "JFK")["held"] == 20
    assert windy(driver) == {"JFK": (199, 0)}
    assert len(said(driver)) == 199


def test_a_report_that_makes_many_rows_final_goes_on_with_them() -> None:
    driver = TopologyTestDriver(flights(as_of_time(keep=10**6)))
    driver.pipe("weather", report("JFK", 1, 0, 30))
    for number in range(1, 600):
        driver.pipe("moves", move("N1", number, "JFK", number))
    assert said(driver) == {}
    driver.pipe("weather", report("JFK", 2, 10**6 // 2, 1))
    assert windy(driver) == {"JFK": (599, 0)}
    assert len(driver.read("flights.flown.by-key")) == 601 + 2


def test_a_table_of_the_same_key_over_two_sources_needs_no_key() -> None:
    graph = Topology("shop")
    orders = graph.source("orders", inspector=Inspector("customer", "n"))
    customers = graph.source("customers", inspector=Inspector("id", "version"))
    known = events(graph, customers, time=lambda it: it["time"]).latest(name="known")
    found = events(graph, orders, time=lambda it: it["time"]).lookup(
        known, at=as_of_time(wait=0, keep=1000), name="named",
        merge=lambda order, customer: customer and customer["name"],
    )  # fmt: skip
    found.to_rows("named", {"name": lambda name: name})
    found.to("told")
    driver = TopologyTestDriver(graph)
    driver.pipe("orders", {"customer": 7, "n": 1, "time": 5})
    driver.pipe("customers", {"id": 7, "version": 1, "time": 4, "name": "Ann"})
    driver.pipe("customers", {"id": 7, "version": 2, "time": 6, "name": "Eve"})
    (row,) = driver.table("named").values()
    assert row == {"stream": "7", "sequence": 1, "name": "Ann", "missing": 0, "final": True}
    told = driver.read_json("told")
    assert [(each["value"], each["final"]) for each in told] == [
        (None, False), ("Ann", False), ("Ann", True),
    ]  # fmt: skip
    assert (told[0]["stream"], told[0]["sequence"]) == ("7", 1)


@pytest.mark.parametrize(
    ("inspector", "empty"),
    [
        (Inspector(header("item"), header("n")), b"null"),
        (Headers("item", "n", body="json"), b"null"),
        (Headers("item", "n", body="json"), None),
    ],
)
def test_a_right_event_without_content_is_a_value_like_any_other(
    inspector: Inspector | Headers, empty: bytes | None
) -> None:
    graph = Topology("shop")
    orders = events(graph, graph.source("orders", inspector=Inspector("item", "number")))
    stock = graph.source("stock", inspector=inspector)
    found = orders.lookup(
        events(graph, stock).latest(name="latest"),
        at=as_of_sequence(left=lambda order: order["saw"]),
        merge=lambda order, item: item and item["left"], name="found",
    )  # fmt: skip
    found.to_rows("found", {"left": lambda left: left})
    driver = TopologyTestDriver(graph)
    for number, body in enumerate([b'{"left":5}', empty], 1):
        driver.pipe("stock", body, headers=[("item", b"tea"), ("n", b"%d" % number)])
    driver.pipe("orders", {"item": "tea", "number": 1, "saw": 2})
    (row,) = driver.table("found").values()
    assert (row.get("left"), row["final"]) == (None, True)
    assert driver.counts("latest").failed == 0
    reader = StreamReader(graph.views["found"], driver._storage.stores["found"], "tea")
    assert [row["value"] for row in reader.rows("found")] == [None]


def test_what_verbs_leave_out_on_the_right_is_no_value_but_moves_its_clock() -> None:
    graph = Topology("flights")
    moves = graph.source("moves", inspector=Inspector("tail", "number"))
    weather = graph.source("weather", inspector=Inspector("origin", "n"))
    windy = events(graph, weather, time=lambda it: it["time"]).filter(lambda it: it["wind"] > 20)
    found = events(graph, moves, time=lambda it: it["time"]).flat_map(lambda move: [move, move])
    found.lookup(
        windy.map(lambda it: {"wind": it["wind"] + 1}).latest(name="wind"),
        key=lambda move: move["origin"], at=as_of_time(keep=1000), merge=with_wind, name="flown",
    ).to_rows("flown", {"wind": lambda it: it["wind"]})  # fmt: skip
    driver = TopologyTestDriver(graph)
    for body in [
        report("JFK", 1, 10, 30), move("N1", 1, "JFK", 15), report("JFK", 2, 14, 1),
        report("JFK", 3, 20, 1),
    ]:  # fmt: skip
        driver.pipe(topic_of(body), body)
    assert [(row["part"], row["wind"], row["final"]) for row in driver.table("flown").values()] == [
        (0, 31, True), (1, 31, True),
    ]  # fmt: skip


def test_windows_behind_a_lookup_go_by_the_left_time() -> None:
    graph = Topology("flights")
    flown, _ = looked_up(graph, as_of_time(wait=0, keep=10**6))
    hours = flown.by(lambda found: found["origin"]).window(tumbling(3600))
    hours.fold(count(), name="hours").to_rows("hours")
    driver = TopologyTestDriver(graph)
    driver.pipe("moves", move("N1", 1, "JFK", 10))
    driver.pipe("moves", move("N1", 2, "JFK", 4000))
    assert sorted(row["start"].hour for row in driver.table("hours").values()) == [0, 1]


def test_what_no_lookup_can_be_right_with_is_refused() -> None:
    graph = Topology("flights")
    moves = graph.source("moves", inspector=Inspector("tail", "number"))
    timed, plain = events(graph, moves, time=lambda it: it["time"]), events(graph, moves)
    right, bare = timed.latest(name="right"), plain.latest(name="bare")
    anything: Any = "arrival"
    by_time = as_of_time(keep=1)
    for left, of, at in [(plain, right, by_time), (timed, bare, by_time), (timed, right, anything)]:
        with pytest.raises(DeclarationError, match="arrival time is no choice"):
            left.lookup(of, at=at, merge=with_wind, name="x")
    with pytest.raises(DeclarationError, match="latest"):
        timed.lookup(anything, at=by_time, merge=with_wind, name="x")
    with pytest.raises(DeclarationError, match="found by its stream"):
        timed.latest(name="y", key=lambda it: it["origin"])  # type: ignore[call-arg]
    with pytest.raises(DeclarationError, match="reopen"):
        timed.latest(name="y", closes="Sold", retention=60, reopen="start")
    with pytest.raises(DeclarationError, match="keep"):
        as_of_time(keep=0)
    with pytest.raises(DeclarationError, match="keep"):
        as_of_sequence(left=lambda it: 1, keep=0)
    found = timed.lookup(right, at=by_time, merge=with_wind, name="x")
    with pytest.raises(DeclarationError, match="subtract"):
        found.by(lambda it: "a").fold(least(lambda it: 1), name="least")
    with pytest.raises(DeclarationError, match="missing, final already"):
        found.to_rows("x", {"final": lambda it: 1})


def test_content_that_json_does_not_give_back_fails_its_event() -> None:
    graph = Topology("flights")
    moves = graph.source("moves", inspector=lambda message: ("N1", message.offset + 1, None, {1}))
    both = events(graph, moves, time=lambda _: 1)
    right = both.latest(name="right")
    both.lookup(right, at=as_of_time(keep=1), merge=lambda a, b: a, name="x")
    driver = TopologyTestDriver(graph, strict=False)
    driver.pipe("moves", {})
    assert (driver.counts("x-left").failed, driver.counts("right").failed) == (1, 1)
    assert "JSON" in driver.read_json("flights.errors")[0]["error"]


@dataclass
class Seen:
    """A type of which content is read by name."""

    n: int
    at: datetime | None = None


@dataclass
class Spelt:
    n: Annotated[int, Field(alias="number")]


@dataclass
class Open:
    __pydantic_config__ = ConfigDict(extra="allow")
    n: int


class Model(BaseModel):
    n: int


@pytest.mark.parametrize(
    ("of", "body", "kept"),
    [
        (Seen, {"id": "a", "n": 1, "more": [2]}, {"n": 1}),
        (Spelt, {"id": "a", "n": 1, "number": 2}, None),
        (Open, {"id": "a", "n": 1, "more": 2}, None),
        (Model, {"id": "a", "n": 1, "more": 2}, None),
        (None, {"id": "a", "n": 1, "more": 2}, None),
    ],
)
def test_of_content_a_lookup_keeps_what_its_type_reads(of: Any, body: Body, kept: Any) -> None:
    """kept: None for all of it, as the type may read it."""
    graph = Topology("t")
    made: list[Any] = []
    both = events(
        graph, graph.source("in", inspector=Inspector("id", "n")), of=of, time=lambda _: 1
    )
    looked = both.lookup(
        both.latest(name="right"), at=as_of_time(keep=1, wait=0),
        merge=lambda left, right: made.append((left, right)), name="x",
    )  # fmt: skip
    looked.to_rows("rows", {"value": lambda value: value})
    driver = TopologyTestDriver(graph)
    driver.pipe("in", body)
    sent = {kind: item[-1] for kind, (item,) in driver.read_json("t.x.by-key")[:2]}
    wanted = body if kept is None else kept
    assert sent == {"left": wanted, "right": [wanted]}
    read = body if of is None else TypeAdapter(of).validate_python(body)
    assert made[-1] == (read, read)


def test_describe_shows_the_hops_and_spark_refuses_them() -> None:
    graph = flights()
    text, picture = str(graph.describe()), graph.describe().mermaid()
    assert "flights.flown.by-key (from views flown-left, wind, flown-wait, flown, by key" in text
    assert "flights.flown.waits (from view flown, by key" in text
    for view in ("flown_left", "wind", "flown_wait", "flown"):
        assert f"v_{view} --> t_flights_flown_by_key" in picture
    with pytest.raises(DeclarationError, match="run the topology with Faust"):
        check_supported(graph)


def test_explain_tells_of_a_key() -> None:
    driver = run(flights(), day(Random(1)))
    assert "JFK" in str(driver.explain("flown", "JFK"))
    assert orjson.loads(driver.read("flights.flown.by-key")[0].value or b"")[0] in ("left", "right")


def test_rows_that_may_still_change_are_asked_for_by_key() -> None:
    driver = TopologyTestDriver(flights(as_of_time(wait=0, keep=50)))
    for body in [report("JFK", 1, 5, 30), move("N1", 1, "JFK", 3), move("N1", 2, "JFK", 7)]:
        driver.pipe(topic_of(body), body)
    reader = StreamReader(driver.topology.views["flown"], driver._storage.stores["flown"], "JFK")
    assert sorted(reader.rows("flown"), key=lambda row: row["sequence"]) == [
        {"stream": "N1", "sequence": 1, "part": 0, "value": {"origin": "JFK", "wind": None},
         "final": True, "missing": 0},
        {"stream": "N1", "sequence": 2, "part": 0, "value": {"origin": "JFK", "wind": 30},
         "final": False, "missing": 0},
    ]  # fmt: skip


def test_a_row_whose_value_is_dropped_before_it_is_in_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookup_join, "DROPPED", 1)
    driver = TopologyTestDriver(flights(as_of_time(wait=0, keep=1, history=0)))
    driver.pipe("weather", report("JFK", 1, 0, 30))
    for number in range(1, 6):
        driver.pipe("moves", move("N1", number, "JFK", 1))
    driver.pipe("weather", report("JFK", 2, 100, 31))
    driver.pipe("weather", report("JFK", 3, 200, 32))
    driver.pipe("moves", move("N1", 6, "JFK", 250))
    cells = {*driver._runner.view("flown").state.cells.keys("JFK")}
    assert "row N1 5 0" in cells
    assert "value 1" not in cells
    reader = StreamReader(driver.topology.views["flown"], driver._storage.stores["flown"], "JFK")
    assert [row["sequence"] for row in reader.rows("flown")] == [6]


def sifted(keep: float, **options: Any) -> Topology:
    """Departures with their wind, of reports of which one of 13 fails, and less than 4 is left
    out."""
    made = Topology("flights")
    left, right = (
        made.source(topic, inspector=Inspector(stream, number))
        for topic, stream, number in (("moves", "tail", "number"), ("weather", "origin", "n"))
    )
    wind = events(made, right, time=lambda report: report["time"]).filter(
        lambda report: 1 / (13 - report["wind"]) > 0.1
    )
    events(made, left, time=lambda move: move["time"]).lookup(
        wind.latest(name="wind", **options), key=lambda move: move["origin"],
        at=as_of_time(wait=0, keep=keep), merge=with_wind, name="flown",
    ).to_rows("flown", {"wind": lambda found: found["wind"]})  # fmt: skip
    return made


@pytest.mark.parametrize("keep", [1, 1_000])
def test_what_failed_is_missing_though_a_later_one_has_an_earlier_time(keep: float) -> None:
    reports = [report("JFK", 1, 0, 13), report("JFK", 2, 10, 6), report("JFK", 3, 9, 7)]
    moves = [move("N1", 1, "JFK", 1)]
    for order in (moves + reports, reports + moves):
        assert said(run(sifted(keep), order)) == {("N1", 1): (None, 1, True)}


def test_what_is_lost_behind_one_that_is_left_out_is_not_missing_in_front_of_it() -> None:
    driver = TopologyTestDriver(sifted(1_000, **REBUILT))
    driver.pipe("weather", report("JFK", 3, 9, 1))  # it is left out, and later than the departure
    driver.pipe("moves", move("N1", 1, "JFK", 6))
    driver.advance(30)
    driver.pipe("weather", report("JFK", 5, 15, 7))
    driver.pipe("weather", report("JFK", 2, 6, 8))
    driver.advance(30)
    assert said(driver) == {("N1", 1): (8, 0, True)}
    driver = TopologyTestDriver(sifted(1_000, **REBUILT))
    for body in (report("JFK", 2, 6, 8), report("JFK", 3, 9, 1), report("JFK", 5, 15, 7)):
        driver.pipe("weather", body)
    driver.advance(30)
    driver.pipe("moves", move("N1", 1, "JFK", 6))
    assert said(driver) == {("N1", 1): (8, 0, True)}


@settings(max_examples=some(60), deadline=None)
@given(st.integers(0, 10**6))
def test_what_is_missing_does_not_depend_on_filters_or_on_which_side_is_ahead(seed: int) -> None:
    """Right times go back, some events fail or are left out, and little is kept."""
    chance = Random(seed)
    moves = [move("N1", n, "JFK", chance.randrange(20)) for n in range(1, 6)]
    reports = [
        report("JFK", n, chance.choice([3 * n, chance.randrange(20)]), chance.choice([7, 0, 13]))
        for n in range(1, 9)
    ]
    keep = chance.choice([1, 2, 5, 1_000])
    orders = [moves + reports, reports + moves]
    for _ in range(2):
        mixed = [True] * len(moves) + [False] * len(reports)
        chance.shuffle(mixed)
        sides = iter(moves), iter(reports)
        orders.append([next(sides[0 if is_move else 1]) for is_move in mixed])
    assert len({hashed(run(sifted(keep), order)) for order in orders}) == 1


def test_by_sequence_too_how_far_the_right_is_ahead_changes_nothing() -> None:
    tables = set()
    moves = [move("N1", 1, "JFK", 0, saw=100)]
    reports = [report("JFK", n, n, n) for n in range(1, 130)]
    by_sequence: AsOf[Any] = as_of_sequence(left=lambda move: move["saw"], keep=20)
    for order in (moves + reports, reports + moves):
        driver = run(flights(by_sequence), order)
        assert not driver.read("flights.late")
        tables.add(hashed(driver))
    assert len(tables) == 1
