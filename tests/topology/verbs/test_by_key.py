"""Folds by key: over all streams, whatever the order of arrival."""

from collections import Counter, defaultdict
from datetime import datetime
from itertools import permutations
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from tests.topology.torn_units import TornUnits, but_counts
from topology import Inspector, Topology, TopologyTestDriver, advance, rebuild_stream, skip
from topology.model.errors import DeclarationError
from topology.spark.supported import check_supported
from topology.testing import Simulator
from topology.testing.simulation.schedule import Schedule
from topology.verbs import (
    Aggregate,
    count,
    events,
    hopping,
    least,
    mean,
    most,
    session,
    total,
    tumbling,
)
from topology.verbs.kept_windows import KeptWindows
from topology.verbs.windows import Hopping

HOUR = 3600
SEEDS = 60
Body = dict[str, Any]


def flights(**options: Any) -> Topology:
    graph = Topology("flights")
    source = graph.source("moves", inspector=Inspector("tail", "number"), partitions=2)
    moves = events(graph, source, time=lambda move: move["time"])
    out = moves.filter(lambda move: move["kind"] == "OUT")
    hours = out.by(lambda move: move["origin"]).window(tumbling(HOUR))
    hours.fold(mean(lambda move: move["delay"]), name="airport_hour", **options).to_rows("hours")
    return graph


def move(tail: str, number: int, origin: str, time: float, delay: float = 0.0) -> Body:
    return {
        "tail": tail, "number": number, "kind": "OUT", "origin": origin, "time": time,
        "delay": delay,
    }  # fmt: skip


def rows(driver: TopologyTestDriver, table: str = "hours") -> dict[tuple[Any, ...], Any]:
    return {
        (row["key"], int(row["start"].timestamp()) if "start" in row else None): (
            row["value"], row["missing"],
        )
        for row in driver.table(table).values()
    }  # fmt: skip


MOVES = [
    move("N1", 1, "JFK", 10, 0.1), move("N1", 2, "LGA", 4000, 3.0), move("N1", 3, "JFK", 9000),
    move("N2", 1, "JFK", 20, 0.2), move("N2", 2, "JFK", 3599, 1e16),
    move("N2", 3, "EWR", 3600, 1.0),
]  # fmt: skip


@settings(max_examples=some(20), deadline=None)
@given(st.permutations(MOVES), st.lists(st.sampled_from(MOVES), max_size=3))
def test_a_table_by_key_is_the_same_whatever_the_order_of_arrival(
    arrived: list[Body], twice: list[Body]
) -> None:
    driver = TopologyTestDriver(flights())
    for each in [*arrived, *twice]:
        driver.pipe("moves", each)
    assert rows(driver) == {
        ("JFK", 0): ((0.1 + 0.2 + 1e16) / 3, 0), ("JFK", 7200): (0.0, 0),
        ("LGA", 3600): (3.0, 0), ("EWR", 3600): (1.0, 0),
    }  # fmt: skip
    assert driver.audit(contents=True).sound


def test_least_most_total_and_count_by_key_without_windows() -> None:
    graph = Topology("flights")
    source = graph.source("moves", inspector=Inspector("tail", "number"))
    by = events(graph, source).by(lambda move: move["origin"])
    by.fold(count(), name="moves_of").to_rows("moves_of")
    by.fold(least(lambda move: move["delay"]), name="least").to_rows("least")
    by.fold(most(lambda move: move["tail"]), name="most").to_rows("most")
    by.fold(total(lambda move: move["delay"]), name="total").to("totals", lambda row: row.value)
    driver = TopologyTestDriver(graph)
    for each in MOVES:
        driver.pipe("moves", each)
    assert rows(driver, "moves_of") == {
        ("JFK", None): (4, 0), ("LGA", None): (1, 0), ("EWR", None): (1, 0),
    }  # fmt: skip
    assert rows(driver, "least")["JFK", None] == (0.0, 0)
    assert rows(driver, "most")["JFK", None] == ("N2", 0)
    (*_, last) = [record for record in driver.read("totals") if record.key == b"JFK"]
    assert float(last.value or b"") == 1e16


def test_hopping_windows_by_key() -> None:
    graph = Topology("flights")
    source = graph.source("moves", inspector=Inspector("tail", "number"))
    moves = events(graph, source, time=lambda move: move["time"])
    by = moves.by(lambda move: move["origin"]).window(hopping(2 * HOUR, HOUR))
    by.fold(count(), name="hours_of").to_rows("hours_of")
    driver = TopologyTestDriver(graph)
    driver.pipe("moves", move("N1", 1, "JFK", 4000))
    assert rows(driver, "hours_of") == {("JFK", 0): (1, 0), ("JFK", 3600): (1, 0)}


def test_missing_by_key_is_what_was_given_up_right_before() -> None:
    driver = TopologyTestDriver(flights(gap=skip(after=10)))
    driver.pipe("moves", move("N1", 1, "JFK", 10))
    driver.pipe("moves", move("N1", 4, "LGA", 20))
    driver.advance(11)
    assert rows(driver) == {("JFK", 0): (0.0, 0), ("LGA", 0): (0.0, 2)}


def test_a_late_event_with_rebuild_stream_gives_the_table_of_an_in_order_run() -> None:
    def run(order: list[int]) -> dict[tuple[Any, ...], Any]:
        driver = TopologyTestDriver(flights(gap=skip(after=10), late=rebuild_stream()))
        for at in order:
            driver.pipe("moves", MOVES[at])
            driver.advance(11)
        audit = driver.audit(contents=True)
        assert audit.sound, audit
        return rows(driver)

    assert run([0, 2, 3, 4, 5, 1]) == run([0, 1, 2, 3, 4, 5])


def test_an_event_without_a_key_fails_with_the_remedy() -> None:
    driver = TopologyTestDriver(flights(error=advance()), strict=False)
    driver.pipe("moves", {**MOVES[0], "origin": None})
    (report,) = driver.read_json("flights.errors")
    assert "filter" in report["error"]


def test_what_cannot_be_combined_in_any_order_is_refused() -> None:
    graph = Topology("flights")
    source = graph.source("moves", inspector=Inspector("tail", "number"))
    moves = events(graph, source, time=lambda move: move["time"])
    by = moves.by(lambda move: move["origin"])
    own: Any = Aggregate(list, lambda kept, event: [*kept, event], lambda kept: kept)
    with pytest.raises(DeclarationError, match="merge"):
        by.fold(own, name="own")
    with pytest.raises(DeclarationError, match="sessions of several streams"):
        by.window(session(60))
    with pytest.raises(DeclarationError, match="reopen"):
        by.fold(count(), name="n", closes="Sold", retention=60, reopen="start")
    with pytest.raises(DeclarationError, match="when events happened"):
        events(graph, source).by(str).window(tumbling(60))
    with pytest.raises(DeclarationError, match="1= is no option"):
        by.fold(count(), name="n", combine={1: 1, "x": 1})  # type: ignore[arg-type]


def test_a_copy_is_not_counted_and_what_comes_again_after_a_drop_is() -> None:
    graph = Topology("flights")
    moves = events(graph, graph.source("moves", inspector=Inspector("tail", "number")))
    moves.by(lambda move: move["origin"]).fold(count(), name="n").to_rows("n")
    driver = TopologyTestDriver(graph)
    for wanted in (2, 2, 4):
        if wanted == 4:
            driver.command("drop", "n-by", "N2")
        for each in MOVES[3:5]:
            driver.pipe("moves", each)
        assert rows(driver, "n") == {("JFK", None): (wanted, 0)}


def test_nobody_else_writes_to_the_topic_between_the_views() -> None:
    graph = flights()
    with pytest.raises(DeclarationError, match="airport_hour"):
        graph.view("x", of="moves", handler=lambda event: [], emits=["flights.airport_hour.by-key"])
    with pytest.raises(DeclarationError, match="belongs to source"):
        graph.source("flights.airport_hour.by-key", inspector=Inspector("a", "b"))
    with pytest.raises(DeclarationError, match="airport_hour"):
        # Kafka takes the two names for one.
        graph.view("y", of="moves", handler=lambda event: [], emits=["flights.airport.hour.by-key"])


def test_describe_shows_the_hop_and_spark_refuses_it() -> None:
    graph = flights()
    text, picture = str(graph.describe()), graph.describe().mermaid()
    assert "flights.airport_hour.by-key (from view airport_hour-by, by key" in text
    assert "v_airport_hour_by --> t_flights_airport_hour_by_key" in picture
    with pytest.raises(DeclarationError, match="no topic between views"):
        check_supported(graph)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("rebuilds", [False, True])
def test_a_table_by_key_is_right_whatever_dies_between_the_hops(
    guarantee: Any, rebuilds: bool
) -> None:
    def messages(seed: int) -> list[Any]:
        chance = Random(seed)
        return [
            ("moves", move(f"N{tail}", number, chance.choice("ABC"), chance.randrange(9000)))
            for number in range(1, 6)
            for tail in (1, 2, 3)
        ]

    graph = Topology("flights")
    source = graph.source("moves", inspector=Inspector("tail", "number"), partitions=2)
    moves = events(graph, source, time=lambda move: move["time"])
    by = moves.by(lambda move: move["origin"]).window(tumbling(HOUR))
    if rebuilds:
        fold = by.fold(count(), name="hours_of", gap=skip(after=5), late=rebuild_stream())
    else:
        fold = by.fold(count(), name="hours_of")
    fold.to_rows("hours_of")
    simulator = Simulator(graph, messages, guarantee=guarantee, runner=TornUnits)
    audit = simulator._audit.errors
    simulator._audit.errors = lambda run: [  # type: ignore[method-assign]
        *but_counts(audit(run)), *_wrong_counts(run, rebuilds),
    ]  # fmt: skip
    assert simulator.run(range(SEEDS)).handled


def _wrong_counts(run: Schedule, rebuilds: bool) -> list[str]:
    """How the table differs from what arrived: without a gap, or all of it where late events have
    their streams rebuilt."""
    came: dict[str, dict[int, Body]] = defaultdict(dict)
    said: dict[tuple[str, int], tuple[int, int]] = {}
    for number in range(2):
        log = run.world.log
        for _, value, _, _ in log.partition(("moves", number)).committed():
            body = orjson.loads(value or b"")
            came[body["tail"]][body["number"]] = body
        for _, value, _, _ in log.partition(("flights.hours_of", number)).committed():
            for change in orjson.loads(value or b"")["changes"]:
                start = datetime.fromisoformat(change["key"]["start"]).timestamp()
                row = change["values"]
                said[change["key"]["key"], int(start)] = row["value"], row["missing"]
    wanted: dict[tuple[str, int], tuple[int, int]] = {}
    for moves in came.values():
        last = 0
        for number in sorted(moves):
            if number != last + 1 and not rebuilds:
                break
            at = moves[number]["origin"], moves[number]["time"] // HOUR * HOUR
            n, missing = wanted.get(at, (0, 0))
            wanted[at] = n + 1, missing + number - last - 1
            last = number
    return [] if said == wanted else [f"the table says {said}, not {wanted}"]


def test_counts_by_key_are_the_sum_over_streams() -> None:
    chance, driver = Random(5), TopologyTestDriver(flights())
    sent = [
        move(f"N{tail}", number, chance.choice("ABC"), chance.randrange(9000), chance.random())
        for tail in range(20) for number in range(1, 11)
    ]  # fmt: skip
    chance.shuffle(sent)
    for each in sent:
        driver.pipe("moves", each)
    wanted = Counter((each["origin"], each["time"] // HOUR * HOUR) for each in sent)
    assert rows(driver).keys() == wanted.keys()


def kept(keep: float) -> Topology:
    graph = Topology("flights")
    source = graph.source("moves", inspector=Inspector("tail", "number"))
    moves = events(graph, source, time=lambda move: move["time"])
    hours = moves.by(lambda move: move["origin"]).window(tumbling(HOUR), keep=keep)
    rows = hours.fold(count(), name="hours").to_rows("hours")
    rows.filter(lambda row: row.value > 0).fold(count(), name="busy").to_rows("busy")
    return graph


def test_windows_that_are_kept_no_more_are_dropped_with_the_streams_that_were_in_them() -> None:
    driver = TopologyTestDriver(kept(2 * HOUR))
    for hour in range(200):
        driver.pipe("moves", move("N0", hour + 1, "JFK", hour * HOUR + 5))
        driver.pipe("moves", move(f"N{hour + 1}", 1, "JFK", hour * HOUR))
    cells = list(driver._runner.view("hours").state.cells.keys("JFK"))
    assert len(cells) < 30
    assert "from N0" in cells
    assert set(rows(driver).values()) == {(2, 0)}
    assert len(rows(driver)) == 200
    assert driver.table("busy")[("JFK",)]["value"] == 200
    driver.pipe("moves", move("N0", 201, "JFK", 100 * HOUR))
    (late,) = driver.read("flights.late")
    assert b"kept no more" in (dict(late.headers)["sequitur-reason"] or b"")
    driver.pipe("moves", move("N0", 202, "JFK", 198 * HOUR))
    assert rows(driver)["JFK", 198 * HOUR] == (3, 0)
    assert rows(driver)["JFK", 100 * HOUR] == (2, 0)
    # What a crash sends again of a stream that is known no more is counted no second time.
    again = driver.read("flights.hours.by-key")[1]
    driver._storage.append(again.topic, again.key, again.value, again.headers, again.timestamp)
    driver._runner.feed()
    assert rows(driver)["JFK", 0] == (2, 0)
    assert len(driver.read("flights.late")) == 1


@settings(max_examples=some(20), deadline=None)
@given(st.integers(0, 10**6))
def test_within_keep_the_order_of_arrival_does_not_matter(seed: int) -> None:
    chance = Random(seed)
    bodies = [
        move(tail, n, chance.choice("AB"), 600 * n + chance.randrange(900))
        for tail in ("N1", "N2", "N3") for n in range(1, 9)
    ]  # fmt: skip
    tables = []
    for order in (bodies, chance.sample(bodies, len(bodies))):
        driver = TopologyTestDriver(kept(2 * HOUR))
        for body in order:
            driver.pipe("moves", body)
        assert not driver.read("flights.late")
        tables.append((rows(driver), driver.table("busy")))
    assert tables[0] == tables[1]


def test_a_key_with_nul_fails_its_event() -> None:
    """No row of such a key would be restored from the changelog."""
    driver = TopologyTestDriver(kept(2 * HOUR))
    driver.pipe("moves", move("N1", 1, "J\0K", 600))
    driver.pipe("moves", move("N1", 2, "JFK", 600))
    assert "has a NUL" in driver.read_json("flights.errors")[0]["error"]
    assert [key[0] for key in rows(driver)] == ["JFK"]


def test_how_long_windows_by_key_are_kept_is_a_time() -> None:
    graph = Topology("flights")
    source = graph.source("moves", inspector=Inspector("tail", "number"))
    by = events(graph, source, time=lambda move: move["time"]).by(lambda move: move["origin"])
    with pytest.raises(DeclarationError, match="keep=-1"):
        by.window(tumbling(1), keep=-1)


@pytest.mark.parametrize("how", ["column", "filter", "key"])
def test_a_row_that_cannot_be_made_on_the_way_loses_no_event(how: str) -> None:
    """The sum is 0 on the way in some orders, by which nobody can divide."""
    found = set()
    for order in permutations(enumerate([1, -1, 5, 0])):
        graph = Topology("shop")
        sales = events(graph, graph.source("sales", inspector=Inspector("id", "n")))
        sums = sales.by(lambda sale: "all").fold(total(lambda sale: sale["v"]), name="sums")
        if how == "column":
            sums.to_rows("sums", {"share": lambda row: 10 / row.value})
        elif how == "filter":
            sums.filter(lambda row: 10 / row.value < 100).to_rows("sums")
        else:
            sums.by(lambda row: int(10 / row.value)).fold(count(), name="shares").to_rows("sums")
        driver = TopologyTestDriver(graph)
        for at, value in order:
            driver.pipe("sales", {"id": f"s{at}", "n": 1, "v": value})
        errors = driver.read_json("shop.errors")
        assert all("the row of key 'all' cannot be made" in each["error"] for each in errors)
        assert driver.counts("sums").failed == 0
        assert driver.audit().sound
        found.add(repr(sorted(driver.table("sums").items())))
    assert len(found) == 1


def test_a_row_that_cannot_be_made_in_the_end_is_there_no_longer() -> None:
    graph = Topology("shop")
    sales = events(graph, graph.source("sales", inspector=Inspector("id", "n")))
    sums = sales.by(lambda sale: "all").fold(total(lambda sale: sale["v"]), name="sums")
    sums.to_rows("sums", {"share": lambda row: 10 / row.value})
    driver = TopologyTestDriver(graph)
    driver.pipe("sales", {"id": "a", "n": 1, "v": 5})
    assert driver.table("sums")
    driver.pipe("sales", {"id": "b", "n": 1, "v": -5})
    assert not driver.table("sums")
    driver.pipe("sales", {"id": "b", "n": 2, "v": 2})
    assert [row["share"] for row in driver.table("sums").values()] == [5.0]


class Item(str):
    """A text by another name."""


def test_a_key_is_in_one_partition_however_its_guid_is_written() -> None:
    graph = Topology("shop")
    sales = events(graph, graph.source("sales", inspector=Inspector("id", "n")))
    sales.by(lambda sale: Item(sale["item"])).fold(count(), name="sold").to_rows("sold")
    driver = TopologyTestDriver(graph)
    guid = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
    for number, written in enumerate([guid, guid.upper(), f"{{{guid}}}"], 1):
        driver.pipe("sales", {"id": "a", "n": number, "item": written})
    assert {record.key for record in driver.read("shop.sold.by-key")} == {guid.encode()}
    assert [(row["key"], row["value"]) for row in driver.table("sold").values()] == [(guid, 3)]


def test_what_is_missing_before_an_event_of_several_keys_is_missing_in_each_of_them() -> None:
    graph = Topology("flights")
    source = graph.source("moves", inspector=Inspector("tail", "number"))
    ends = events(graph, source).flat_map(lambda move: [move["origin"], move["to"]])
    ends.by(lambda airport: airport).fold(
        count(), name="ends", gap=skip(after=10), late=rebuild_stream()
    ).to_rows("ends")
    driver = TopologyTestDriver(graph)
    for number in (1, 3):
        driver.pipe("moves", {**move("N1", number, "JFK", 0), "to": "LGA"})
    driver.advance(11)
    assert rows(driver, "ends") == {("JFK", None): (2, 1), ("LGA", None): (2, 1)}
    driver.pipe("moves", {**move("N1", 2, "JFK", 0), "to": "EWR"})
    assert rows(driver, "ends") == {
        ("JFK", None): (3, 0), ("LGA", None): (2, 0), ("EWR", None): (1, 0),
    }  # fmt: skip


def test_windows_that_began_when_they_were_smaller_are_read_and_dropped_like_others() -> None:
    day, hour = Hopping(86_400_000, 86_400_000), Hopping(3_600_000, 3_600_000)
    state: Body = {}
    cells: Body = {"from N1": [0, 1]}
    assert KeptWindows(hour, 0, state, cells).took("N1", [[3_600_000, 0, 1]], [3_600_000]) == []
    found = KeptWindows(day, 0, state, cells).took("N1", [[10**9, 0, 1]], [950_400_000])
    assert found == [3_600_000]
    graph = Topology("flights")
    source = graph.source("moves", inspector=Inspector("tail", "number"))
    by = events(graph, source, time=lambda move: move["time"]).by(lambda move: move["origin"])
    by.window(tumbling(24 * HOUR)).fold(count(), name="days")
    read = graph.views["days"].folds["days"]("JFK", {}, lambda first, end: [("3600000", [2, 0, 1])])
    assert [(row["start"].hour, row["value"]) for row in read] == [(1, 2)]


def test_a_number_that_json_has_not_fails_its_event_in_front_of_the_hop() -> None:
    graph = Topology("flights")
    source = graph.source("moves", inspector=Inspector("tail", "number"))
    by = events(graph, source).by(lambda move: move["origin"])
    by.fold(most(lambda move: float(move["delay"])), name="worst").to_rows("worst")
    driver = TopologyTestDriver(graph)
    for number, delay in enumerate(["3", "inf", "2"], 1):
        driver.pipe("moves", {**move("N1", number, "JFK", 0), "delay": delay})
    (report,) = driver.read_json("flights.errors")
    assert (report["view"], report["sequence"]) == ("worst-by", 2)
    assert "inf, which would become NULL" in report["error"]
    assert rows(driver, "worst") == {("JFK", None): (3.0, 1)}
