"""Verbs on the rows of a fold: a view reads a view, within its unit or over a hop."""

from collections import Counter, defaultdict
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from tests.topology.torn_units import TornUnits, but_counts
from topology import Inspector, Topology, TopologyTestDriver, rebuild_stream, skip
from topology.engine.state.rows import CELLS
from topology.model.errors import DeclarationError
from topology.testing import Simulator
from topology.testing.simulation.schedule import Schedule
from topology.verbs import Aggregate, Rows, count, events, least, mean, total, tumbling

HOUR = 3600
DAY = 24 * HOUR
SEEDS = 40
Body = dict[str, Any]


def moves_of(graph: Topology) -> Any:
    source = graph.source("moves", inspector=Inspector("tail", "number"), partitions=2)
    return events(graph, source, time=lambda move: move["time"])


def move(tail: str, number: int, time: float, origin: str = "JFK", delay: float = 0.5) -> Body:
    return {"tail": tail, "number": number, "time": time, "origin": origin, "delay": delay}


def read(graph: Topology, moves: list[Body], **driver: Any) -> TopologyTestDriver:
    found = TopologyTestDriver(graph, **driver)
    for each in moves:
        found.pipe("moves", each)
    return found


def values(driver: TopologyTestDriver, table: str) -> dict[Any, Any]:
    return {row["key"]: (row["value"], row["missing"]) for row in driver.table(table).values()}


def two_hops(**options: Any) -> Topology:
    """How many airport hours have how many moves, by the day; and days of each aircraft."""
    graph = Topology("flights")
    moves = moves_of(graph)
    by = moves.by(lambda move: move["origin"]).window(tumbling(HOUR))
    hours = by.fold(mean(lambda move: move["delay"]), name="hours", **options)
    hours.to_rows("hours")
    slow = hours.filter(lambda row: row.value > 1)
    slow.by(lambda row: row.key[0]).window(tumbling(DAY)).fold(count(), name="slow").to_rows("slow")
    slow.fold(total(lambda row: row.value), name="sum_slow").to_rows("sum_slow")
    return graph


def tables(driver: TopologyTestDriver) -> Any:
    return [sorted(driver.table(each).items()) for each in ("hours", "slow", "sum_slow")]


MOVES = [
    move("N1", 1, 10, "JFK", 0.1), move("N1", 2, 4000, "LGA", 3.0), move("N1", 3, 9000, "JFK", 9),
    move("N2", 1, 20, "JFK", 0.2), move("N2", 2, 3599, "JFK", 7.0), move("N2", 3, 3600, "EWR", 2),
    move("N3", 1, DAY, "LAX", 5.0), move("N3", 2, 30, "LAX", -4.0), move("N3", 3, 40, "LAX", 1e16),
]  # fmt: skip


@settings(max_examples=some(20), deadline=None)
@given(st.permutations(MOVES), st.lists(st.sampled_from(MOVES), max_size=3))
def test_tables_two_hops_down_are_the_same_whatever_the_order_of_arrival(
    arrived: list[Body], twice: list[Body]
) -> None:
    driver = read(two_hops(), [*arrived, *twice])
    slow = {
        (row["key"], int(row["start"].timestamp())): row["value"]
        for row in driver.table("slow").values()
    }
    # JFK has (0.1 + 0.2 + 7) / 3 and 9, LGA 3, EWR 2, LAX 5 and (1e16 - 4) / 2.
    assert slow == {("J", 0): 2, ("L", 0): 2, ("E", 0): 1, ("L", DAY): 1}
    assert values(driver, "sum_slow")["JFK"] == ((0.1 + 0.2 + 7) / 3 + 9, 0)
    assert tables(driver) == tables(read(two_hops(), MOVES))
    assert driver.audit(contents=True).sound


def test_a_late_event_with_rebuild_stream_gives_the_tables_of_an_in_order_run_two_hops_down() -> (
    None
):
    def run(order: list[int]) -> TopologyTestDriver:
        driver = TopologyTestDriver(two_hops(gap=skip(after=10), late=rebuild_stream()))
        for at in order:
            driver.pipe("moves", MOVES[at])
            driver.advance(11)
        assert driver.audit(contents=True).sound
        return driver

    assert tables(run([0, 2, 8, 3, 5, 6, 4, 7, 1])) == tables(run(list(range(9))))


def test_a_row_that_is_read_in_its_own_view_needs_no_topic() -> None:
    graph = Topology("flights")
    days = moves_of(graph).each().window(tumbling(DAY), keep=DAY).fold(count(), name="days")
    busy = days.filter(lambda row: row.value > 1)
    busy.to_rows("busy")
    busy.fold(count(), name="busy_days").to_rows("busy_days")
    times = [10, 20, DAY + 1, 30, DAY + 2, 3 * DAY]
    driver = read(graph, [move("N1", n, time) for n, time in enumerate(times, 1)])
    assert [row["value"] for row in driver.table("busy").values()] == [3, 2]
    assert values(driver, "busy_days") == {"N1": (2, 0)}
    text = str(graph.describe())
    assert "flights.moves.by-stream" in text
    assert "by-key" not in text
    assert "rows → filter → fold busy_days" in text


def test_a_row_that_a_filter_no_longer_lets_through_goes() -> None:
    graph = Topology("flights")
    sums = moves_of(graph).each().fold(total(lambda move: move["delay"]), name="sums")
    small = sums.filter(lambda row: row.value < 10).map(lambda row: row.value * 2)
    small.to_rows("small", {"twice": lambda value: value}).to("small")
    driver = TopologyTestDriver(graph)
    for number, delay in enumerate([4.0, 8.0, 1.0, -5.0], 1):
        driver.pipe("moves", move("N1", number, 0, delay=delay))
        there = [row["twice"] for row in driver.table("small").values()]
        assert there == [[8.0], [], [], [16.0]][number - 1]
    said = [orjson.loads(record.value or b"") for record in driver.read("small")]
    # Nothing is said of a row that was not there, and is not.
    assert [each["value"] if isinstance(each, dict) else each for each in said] == [8.0, None, 16.0]


def test_rows_that_move_from_key_to_key_leave_no_row_behind() -> None:
    graph = Topology("flights")
    of_tail = moves_of(graph).each().fold(count(), name="of_tail")
    of_tail.by(lambda row: row.value).fold(count(), name="sizes").to_rows("sizes")
    driver = read(graph, [move(f"N{tail}", n, 0) for n in (2, 1, 3) for tail in (1, 2)])
    driver.pipe("moves", move("N1", 4, 0))
    assert values(driver, "sizes") == {"3": (1, 0), "4": (1, 0)}


def test_what_cannot_be_right_over_rows_that_are_revised_is_refused() -> None:
    graph = Topology("flights")
    hours = moves_of(graph).each().fold(count(), name="hours")
    own: Any = Aggregate(list, lambda kept, row: [*kept, row.value], lambda kept: kept)
    for what, aggregate in (("subtract", least(lambda row: row.value)), ("merge", own)):
        with pytest.raises(DeclarationError, match=f"revised.*{what}.*instead of the rows"):
            hours.by(lambda row: row.stream).fold(aggregate, name="refused")
        with pytest.raises(DeclarationError, match=f"revised.*{what}"):
            hours.fold(aggregate, name="refused")
    with pytest.raises(DeclarationError, match="when events happened"):
        hours.by(lambda row: row.stream).window(tumbling(HOUR))
    with pytest.raises(DeclarationError, match="columns="):
        hours.map(lambda row: row.value).to_rows("mapped")
    hours.to_rows("hours")
    with pytest.raises(DeclarationError, match="already"):
        hours.to_rows("hours")
    with pytest.raises(DeclarationError, match="gap= is no option of a view that combines"):
        hours.by(lambda row: row.stream).fold(count(), name="n", gap=skip(after=1))
    assert set(graph.views) == {"hours"}
    assert isinstance(hours, Rows)


def test_the_view_that_combines_has_options_of_its_own() -> None:
    from topology import park

    graph = Topology("flights")
    by = moves_of(graph).by(lambda move: move["origin"])
    by.fold(count(), name="n", combine={"error": park()}, gap=skip(after=5))
    views = {view.name: view.error for view in graph.describe().views}
    assert views == {"n-by": "advance()", "n": "park()"}


def test_a_window_of_an_idle_stream_stays_open_over_any_leap_of_the_clock() -> None:
    graph = Topology("flights")
    moves_of(graph).each().window(tumbling(HOUR)).fold(count(), name="hours").to_rows("hours")
    driver = read(graph, [move("N1", 1, 10)])
    for leap in (HOUR, DAY, 400 * DAY, 10_000 * DAY):
        driver.advance(leap)
        driver.pipe("moves", move("N2", 1 + driver.last("hours", "N2"), driver.now))
        driver.restart()
    ((row,),) = [[r for r in driver.table("hours").values() if r["stream"] == "N1"]]
    assert (row["value"], row["final"]) == (1, False)
    driver.pipe("moves", move("N1", 2, 3599))
    driver.pipe("moves", move("N1", 3, 3600))
    first, second = [r for r in driver.table("hours").values() if r["stream"] == "N1"]
    assert (first["value"], first["final"], second["final"]) == (2, True, False)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("rebuilds", [False, True])
def test_tables_two_hops_down_are_right_whatever_dies_between_the_hops(
    guarantee: Any, rebuilds: bool
) -> None:
    def messages(seed: int) -> list[Any]:
        chance = Random(seed)
        return [
            ("moves", move(f"N{tail}", number, chance.randrange(9000), chance.choice("ABC")))
            for number in range(1, 6)
            for tail in (1, 2, 3)
        ]

    graph = Topology("flights")
    options = {"gap": skip(after=5), "late": rebuild_stream()} if rebuilds else {}
    days = moves_of(graph).each().fold(count(), name="days", **options)
    of_size = days.by(lambda row: row.value).fold(count(), name="of_size")
    of_size.by(lambda row: row.value % 2).fold(total(lambda row: row.value), name="odd").to_rows(
        "odd"
    )
    of_size.to_rows("of_size")
    simulator = Simulator(graph, messages, guarantee=guarantee, runner=TornUnits)
    audit = simulator._audit.errors
    simulator._audit.errors = lambda run: [  # type: ignore[method-assign]
        *but_counts(audit(run)), *_wrong(run, rebuilds),
    ]  # fmt: skip
    assert simulator.run(range(SEEDS)).handled


def _wrong(run: Schedule, rebuilds: bool) -> list[str]:
    """How the tables differ from what arrived: without a gap, or all of it where late events have
    their streams rebuilt."""
    came: dict[str, set[int]] = defaultdict(set)
    said: dict[str, dict[str, int]] = {"of_size": {}, "odd": {}}
    for number in range(2):
        for _, value, _, _ in run.world.log.partition(("moves", number)).committed():
            body = orjson.loads(value or b"")
            came[body["tail"]].add(body["number"])
        for table, rows in said.items():
            place = (f"flights.{table}", number)
            for _, value, _, _ in run.world.log.partition(place).committed():
                for change in orjson.loads(value or b"")["changes"]:
                    rows.pop(change["key"]["key"], None)
                    if change["op"] == "upsert":
                        rows[change["key"]["key"]] = change["values"]["value"]
    sizes: Counter[str] = Counter()
    for numbers in came.values():
        whole = next(n for n in range(1, 9) if n not in numbers) - 1
        if size := len(numbers) if rebuilds else whole:
            sizes[str(size)] += 1
    odd: Counter[str] = Counter()
    for n in sizes.values():
        odd[str(n % 2)] += n
    return [
        f"table {table} says {said[table]}, not {dict(wanted)}"
        for table, wanted in (("of_size", sizes), ("odd", odd))
        if said[table] != wanted
    ]


def test_a_reader_keeps_nothing_of_windows_that_are_kept_no_more() -> None:
    """Of one that was final before, and is dropped by an event that changes it no more."""
    graph = Topology("flights")
    hours = moves_of(graph).each().window(tumbling(3600), keep=600).fold(count(), name="hours")
    hours.filter(lambda row: row.value > 0).to_rows("some")
    times = [10, 3700, 4300, 7300, 7900, 11_000]
    driver = read(graph, [move("N1", n, time) for n, time in enumerate(times, 1)])
    cells = [key for key, _ in driver._storage.stores["hours"].scan(*CELLS)]
    assert len(cells) == 2
    assert len(driver.table("some")) == 4
