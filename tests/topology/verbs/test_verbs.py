"""Verbs on events in order: the same tables, whatever the order of arrival."""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial, wraps
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

from tests.examples import some
from topology import (
    DeclarationError,
    Headers,
    Inspector,
    Table,
    Topology,
    advance,
    rebuild_stream,
    skip,
)
from topology.declaration.source import Source
from topology.testing import Delivery, Sent, Simulator, TopologyTestDriver
from topology.verbs import (
    Aggregate,
    Events,
    Row,
    count,
    emitted,
    events,
    hopping,
    least,
    mean,
    most,
    session,
    total,
    tumbling,
)

HOUR = 3600.0


@dataclass
class Move:
    plane: str
    number: int
    kind: str
    time: float
    delay: float = 0.0


def given_moves() -> tuple[Topology, Source, Events[Move]]:
    topology = Topology("flights")
    source = topology.source("moves", inspector=Inspector("plane", "number", "kind"), keyed=False)
    return topology, source, events(topology, source, of=Move, time=lambda move: move.time)


def move(n: int, time: float, kind: str = "OUT", plane: str = "N1", delay: float = 0.0) -> Any:
    return {"plane": plane, "number": n, "kind": kind, "time": time, "delay": delay}


def fed(topology: Topology, moves: list[Any]) -> TopologyTestDriver:
    driver = TopologyTestDriver(topology)
    for each in moves:
        driver.pipe("moves", each)
    return driver


def values(driver: TopologyTestDriver, table: str) -> dict[datetime, Any]:
    """Window's start → value, of one stream."""
    return {key[1]: row["value"] for key, row in driver.table(table).items()}


def start(hours: float) -> datetime:
    return datetime.fromtimestamp(hours * HOUR, UTC)


def test_verbs_between_a_source_and_rows_are_one_view() -> None:
    topology, _, moves = given_moves()
    seen: list[int] = []
    moves.filter(lambda m: m.kind == "OUT").peek(lambda m: seen.append(m.number)).map(
        lambda m: (m.plane, m.delay)
    ).to_rows("departures", name="departures", columns={"delay": lambda pair: pair[1]})
    driver = fed(topology, [move(2, 20, "ON"), move(3, 30, delay=3.5), move(1, 10)])
    assert list(topology.views) == ["departures"]
    delays = {key: row["delay"] for key, row in driver.table("departures").items()}
    assert delays == {("N1", 1): 0.0, ("N1", 3): 3.5}
    assert seen == [1, 3]
    assert "View departures: filter → peek → map → to_rows" in str(topology.describe())
    # What is filtered out has its place in the sequence.
    assert driver.last("departures", "N1") == 3


def test_flat_map_makes_several_rows_which_a_key_tells_apart() -> None:
    topology, _, moves = given_moves()
    ends = moves.flat_map(lambda m: [(m.number, "from"), (m.number, "to")])
    with pytest.raises(DeclarationError, match=r"to_rows\(key=…\)"):
        ends.to_rows("ends", name="ends", columns={})
    ends.to_rows(
        "ends", name="ends", columns={"seen": lambda _: True},
        key={"number": lambda end: end[0], "end": lambda end: end[1]},
    )  # fmt: skip
    assert len(fed(topology, [move(1, 10), move(2, 20)]).table("ends")) == 4


def test_a_verb_takes_whatever_can_be_called_with_the_value() -> None:
    """A decorator that gives the function what it needs besides, a default, a class, C code."""

    def with_rates(function: Callable[[Move, float], Any]) -> Callable[[Move], Any]:
        @wraps(function)
        def supplied(each: Move) -> Any:
            return function(each, 2.0)

        return supplied

    @with_rates
    def priced(each: Move, rate: float) -> float:
        return each.number * rate

    _, _, moves = given_moves()

    def wide(text: str, width: int = 8) -> str:
        return text.rjust(width)

    moves.map(priced).map(str).map(wide).map(partial(max, "0"))


def test_to_sends_each_value_with_its_stream_as_key() -> None:
    topology, _, moves = given_moves()
    moves.filter(lambda m: m.number != 2).to("out", name="sent")
    driver = fed(topology, [move(2, 20), move(1, 10), move(3, 30)])
    records = driver.read("out")
    assert [each.key for each in records] == [b"N1", b"N1"]
    assert b'"number":1' in (records[0].value or b"")


def test_content_of_another_type_fails_its_event_alone() -> None:
    topology, _, moves = given_moves()
    moves.each().fold(count(), name="moves", error=advance()).to_rows("moves")
    driver = fed(topology, [move(1, 10), move(2, "soon"), move(3, 30)])  # type: ignore[arg-type]
    assert driver.counts("moves").failed == 1
    row = driver.table("moves")["N1",]
    assert (row["value"], row["missing"]) == (2, 1), "what failed is not passed over in silence"


class Sold(BaseModel):
    id: str
    price: float


@dataclass(frozen=True)
class Sale:
    id: str
    price: float


class Entry(TypedDict):
    id: str
    price: float


@pytest.mark.parametrize("of", [Sale, Sold, Entry])
def test_json_that_is_decoded_when_it_is_asked_for_is_read_into_any_type(of: Any) -> None:
    topology = Topology("shop")
    source = topology.source("sales", inspector=Headers("id", "n", body="json"))
    sales = events(topology, source, of=of).map(TypeAdapter(of).dump_python)
    sales.to_rows("sales", name="sales", columns={"price": lambda sale: sale["price"]})
    driver = TopologyTestDriver(topology)
    driver.pipe("sales", {"id": "a", "price": "2.5"}, headers=[("id", b"a"), ("n", b"1")])
    assert [row["price"] for row in driver.table("sales").values()] == [2.5]


def orders(moves: list[Any], number: int) -> list[list[Any]]:
    chance = random.Random(7)
    return [chance.sample(moves, len(moves)) for _ in range(number)]


def test_windows_are_the_same_whatever_the_order_of_arrival() -> None:
    chance = random.Random(1)
    moves, clocks = [], Counter[str]()
    for n in range(1, 61):
        for plane in ("N1", "N2"):
            clocks[plane] += chance.randrange(7200)
            moves.append(move(n, clocks[plane], plane=plane, delay=chance.uniform(-1e9, 1e9)))
    tables = []
    for order in orders(moves, 20):
        topology, _, given_events = given_moves()
        days = given_events.each().window(tumbling(24 * HOUR))
        days.fold(count(), name="counted").to_rows("counted")
        days.fold(mean(lambda m: m.delay), name="delays").to_rows("delays")
        driver = fed(topology, order)
        tables.append((driver.table("counted"), driver.table("delays")))
    assert all(table == tables[0] for table in tables)
    expected = Counter((m["plane"], m["time"] // (24 * HOUR)) for m in moves)
    counted = tables[0][0]
    assert {key: row["value"] for key, row in counted.items()} == {
        (plane, start(24 * day)): n for (plane, day), n in expected.items()
    }
    assert all(
        row["final"] == (start_of.timestamp() // (24 * HOUR) < clocks[plane] // (24 * HOUR))
        for (plane, start_of), row in counted.items()
    )


def test_a_window_is_final_when_its_own_stream_has_passed_it_and_by_no_wall_clock() -> None:
    topology, _, moves = given_moves()
    moves.each().window(tumbling(HOUR)).fold(count(), name="hours").to_rows("hours")
    driver = fed(topology, [move(1, 10), move(1, 9 * HOUR, plane="N2")])
    driver.advance(10 * 365 * 24 * HOUR)
    assert driver.table("hours")["N1", start(0)]["final"] is False
    driver.pipe("moves", move(2, HOUR))
    assert driver.table("hours")["N1", start(0)]["final"] is True
    assert driver.table("hours")["N1", start(1)]["final"] is False


def test_a_closing_kind_makes_windows_final() -> None:
    topology, _, moves = given_moves()
    hours = moves.each().window(tumbling(HOUR))
    hours.fold(count(), name="hours", closes="END", retention=60).to_rows("hours")
    driver = fed(topology, [move(1, 10), move(2, 20, "END")])
    row = driver.table("hours")["N1", start(0)]
    assert (row["value"], row["final"], row["end"]) == (2, True, start(1))


def test_an_earlier_time_revises_a_window_as_long_as_it_is_kept_and_then_is_late() -> None:
    topology, _, moves = given_moves()
    hours = moves.each().window(tumbling(HOUR), keep=HOUR)
    hours.fold(count(), name="hours").to_rows("hours")
    driver = fed(topology, [move(1, 10), move(2, 1.5 * HOUR), move(3, 20)])
    assert driver.table("hours")["N1", start(0)]["value"] == 2
    driver.pipe("moves", move(4, 2 * HOUR))
    driver.pipe("moves", move(5, 30))
    assert driver.table("hours")["N1", start(0)]["value"] == 2
    (late,) = driver.read("flights.late")
    assert b"kept no more" in dict(late.headers)["sequitur-reason"]
    # In sequence it was not late: it was handled, and the audit looks for it nowhere else.
    counts = driver.counts("hours")
    assert (counts.processed, counts.late, driver.last("hours", "N1")) == (5, 0, 5)
    report = driver.audit(contents=True)
    assert report.sound
    assert report.bad_news == ["1 late in their own time"]
    assert not driver.explain("hours", "N1").well


def test_missing_equals_the_losses_and_the_rest_equals_what_arrived() -> None:
    moves = [move(n, n * 600) for n in range(1, 101)]
    lost = {1, 2, 17, 40, 41, 42, 77}
    topology, _, given_events = given_moves()
    hours = given_events.each().window(tumbling(HOUR))
    hours.fold(count(), name="hours", gap=skip(after=5)).to_rows("hours")
    arrived = [each for each in moves if each["number"] not in lost]
    driver = fed(topology, random.Random(3).sample(arrived, len(arrived)))
    driver.advance(60)
    table = driver.table("hours")
    assert sum(row["missing"] for row in table.values()) == len(lost)
    assert {key[1]: row["value"] for key, row in table.items()} == {
        start(hour): n for hour, n in Counter(m["time"] // HOUR for m in arrived).items()
    }
    assert table["N1", start(0)]["missing"] == 2


def test_sessions_join_and_the_rows_that_they_had_go() -> None:
    topology, _, moves = given_moves()
    visits = moves.each().window(session(600), keep=HOUR)
    visits.fold(count(), name="visits").to_rows("visits").to("visits.out")
    driver = fed(topology, [move(1, 0), move(2, 1000), move(3, 1100)])
    assert values(driver, "visits") == {
        start(0): 1, start(1000 / HOUR): 2
    }  # fmt: skip
    driver.pipe("moves", move(4, 500))
    ((key, row),) = driver.table("visits").items()
    assert (key[1], row["value"], row["end"]) == (start(0), 4, start(1700 / HOUR))
    last = driver.read_json("visits.out")[-2:]
    assert [each["value"] for each in last] == [None, 4]


def test_hopping_windows_have_an_event_several_times() -> None:
    topology, _, moves = given_moves()
    moves.each().window(hopping(2 * HOUR, HOUR)).fold(count(), name="hops").to_rows("hops")
    driver = fed(topology, [move(1, 10), move(2, 1.5 * HOUR)])
    assert values(driver, "hops") == {
        start(-1): 1, start(0): 2, start(1): 1
    }  # fmt: skip


def test_a_restart_goes_on_with_its_windows() -> None:
    topology, _, moves = given_moves()
    moves.each().window(tumbling(HOUR)).fold(most(lambda m: m.delay), name="worst").to_rows("worst")
    driver = fed(topology, [move(1, 10, delay=5), move(2, 20, delay=9)])
    driver.restart()
    driver.pipe("moves", move(3, 30, delay=7))
    assert driver.table("worst")["N1", start(0)]["value"] == 9


def test_a_late_event_with_rebuild_stream_gives_the_tables_of_an_in_order_run() -> None:
    moves = [move(n, n * 900, delay=n) for n in range(1, 21)]
    tables = []
    for order in (moves, [each for each in moves if each["number"] != 7]):
        topology, _, given_events = given_moves()
        hours = given_events.each().window(tumbling(HOUR))
        fold = hours.fold(
            mean(lambda m: m.delay), name="hours", gap=skip(after=5), late=rebuild_stream()
        )
        fold.to_rows("hours")
        driver = fed(topology, order)
        driver.advance(60)
        if len(order) < len(moves):
            assert sum(row["missing"] for row in driver.table("hours").values()) == 1
            driver.pipe("moves", moves[6])
            driver.advance(60)
        tables.append(driver.table("hours"))
    assert tables[0] == tables[1]


def short(moves: list[Any], windows: Any, **options: Any) -> TopologyTestDriver:
    """Count what is not called NOT."""
    topology, _, given_events = given_moves()
    some = given_events.filter(lambda m: m.kind != "NOT").each().window(windows)
    some.fold(count(), name="f", gap=skip(after=5), **options).to_rows("f")
    driver = fed(topology, moves)
    driver.advance(10)
    return driver


def lost(driver: TopologyTestDriver) -> list[int]:
    return [row["missing"] for _, row in sorted(driver.table("f").items())]


def test_what_a_rebuild_finds_too_late_is_told_of() -> None:
    moves = [move(1, 0), move(3, 5)]
    topology, _, given_events = given_moves()
    windows = given_events.each().window(tumbling(10))
    windows.fold(count(), name="f", gap=skip(after=5), late=rebuild_stream()).to_rows("f")
    driver = fed(topology, moves)
    driver.advance(10)
    driver.pipe("moves", move(2, 1000))
    driver.advance(10)
    assert {key[1].timestamp(): row["value"] for key, row in driver.table("f").items()} == {
        0: 1, 1000: 1
    }  # fmt: skip
    (record,) = driver.read("flights.late")
    assert dict(record.headers)["sequence"] == b"3"
    assert driver.audit().bad_news == ["1 late in their own time"]


def test_no_session_grows_back_over_one_that_is_kept_no_more() -> None:
    times = [5, 6, 7, 18, 9, 5]
    driver = short([move(n, at) for n, at in enumerate(times, 1)], session(10))
    assert values(driver, "f") == {start(5 / HOUR): 3, start(18 / HOUR): 1}
    assert len(driver.read("flights.late")) == 2


@pytest.mark.parametrize(
    ("moves", "windows", "missing"),
    [
        # The event behind the gap is of a window that is kept no more.
        ([move(1, 1000), move(3, 0), move(4, 1001)], tumbling(10), [1]),
        # The event behind the gap is in no session, and the stream is closed by it.
        ([move(1, 0), move(3, 100, "NOT")], session(10), [1]),
        ([move(1, 1000), move(3, 1020, "NOT"), move(4, 1020)], session(10), [1, 0]),
        ([move(1, 0), move(3, 15, "NOT"), move(4, 16)], tumbling(10), [0, 1]),
    ],
)
def test_no_missing_event_is_forgotten(moves: list[Any], windows: Any, missing: list[int]) -> None:
    assert lost(short(moves, windows)) == missing


def test_what_is_filtered_out_is_never_late() -> None:
    driver = short([move(1, 1000), move(3, 0, "NOT"), move(4, 0, "NOT")], tumbling(10))
    assert not driver.read("flights.late")


def test_a_value_that_json_does_not_have_fails_its_event() -> None:
    topology, _, moves = given_moves()
    moves.map(lambda m: {"delay": float("nan")}).to("out", name="sent", error=advance())
    assert fed(topology, [move(1, 10)]).counts("sent").failed == 1


def test_a_flat_map_without_an_end_fails_its_event() -> None:
    topology, _, moves = given_moves()
    moves.flat_map(lambda m: itertools.count()).to("out", name="sent", error=advance())
    assert fed(topology, [move(1, 10)]).counts("sent").failed == 1


def test_no_time_is_moved_into_the_next_window() -> None:
    driver = short([move(1, 86_399.9996)], tumbling(86_400))
    assert list(values(driver, "f")) == [start(0)]


def test_a_tombstone_can_be_sent() -> None:
    topology, _, moves = given_moves()
    moves.to("out", name="sent", value=lambda m: None)
    (record,) = fed(topology, [move(1, 10)]).read("out")
    assert record.value is None


def test_a_crash_changes_no_window() -> None:
    topology, _, given_events = given_moves()
    kept = given_events.filter(lambda m: m.number % 5).each().window(tumbling(100), keep=50)
    delays = kept.fold(mean(lambda m: m.delay), name="delays", gap=skip(after=30), buffer=4)
    delays.to_rows("delays").to("delays.out")
    visits = given_events.each().window(session(60))
    visits.fold(count(), name="visits", gap=skip(after=30)).to_rows("visits")
    chance = random.Random(3)
    messages = [
        Sent("moves", move(n, n * 40 + chance.choice([0, 0, 0, -200, -90]), plane=plane))
        for n in range(1, 15)
        for plane in "abc"
    ]
    delivery = Delivery(late=0.3, twice=0.1, never=0.05)
    report = Simulator(topology, messages, delivery=delivery).run(range(30))
    assert report.seeds == 30


def test_columns_are_functions_of_the_row() -> None:
    def span(row: Row[int | None]) -> str:
        return f"{row.stream}: {row.value}"

    topology, _, moves = given_moves()
    moves.each().fold(least(lambda m: m.number), name="first").to_rows("first", {"said": span})
    row = fed(topology, [move(1, 10)]).table("first")["N1",]
    assert row == {"stream": "N1", "said": "N1: 1"}


TERMS = st.floats(-1e300, 1e300) | st.integers(-(2**40), 2**40) | st.integers(-(2**63), 2**63 - 1)


@given(st.lists(TERMS, max_size=30), st.randoms())
@settings(max_examples=some(200))
def test_a_total_is_exact_in_any_order(terms: list[float], chance: random.Random) -> None:
    sums = total(lambda term: float(term) if isinstance(term, float) else term)
    found = []
    for _ in range(2):
        kept = sums.start()
        for term in terms:
            kept = orjson.loads(orjson.dumps(sums.add(kept, term)))
        found.append(sums.result(kept))
        chance.shuffle(terms)
    right = sum(map(Fraction, terms))
    assert repr(found[0]) == repr(found[1])
    assert found[0] == (right if isinstance(found[0], int) else float(right))


def test_a_mean_of_nanoseconds_needs_more_than_64_bits_on_its_way() -> None:
    times = mean(lambda time: time)
    kept = times.start()
    for number in range(20):
        kept = orjson.loads(orjson.dumps(times.add(kept, 1_780_000_000_000_000_000 + number)))
    assert times.result(kept) == 1_780_000_000_000_000_009.5
    assert times.subtract is not None
    nothing = times.subtract(kept, kept)
    assert nothing == [0, []]


@given(
    st.lists(
        st.sampled_from([0, 0.0, -0.0, 1, 1.0, True, 2, "", "1", "a"]) | st.integers(0, 9),
        min_size=1, max_size=9,
    ),
    st.randoms(),
)  # fmt: skip
def test_the_least_and_the_most_are_one_in_any_order(values: list[Any], chance: Any) -> None:
    extremes: list[Aggregate[Any, Any, Any]] = [least(lambda it: it), most(lambda it: it)]
    for extreme in extremes:
        assert extreme.merge is not None
        found = set()
        for _ in range(3):
            chance.shuffle(values)
            at = chance.randrange(len(values) + 1)
            parts = []
            for part in (values[:at], values[at:]):
                kept = extreme.start()
                for value in part:
                    kept = extreme.add(kept, value)
                parts.append(kept)
            found.add(repr(extreme.result(extreme.merge(*parts))))
        assert len(found) == 1


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "7", True, None])
def test_what_is_no_finite_number_fails_its_event(wrong: Any) -> None:
    with pytest.raises(TypeError):
        total(lambda value: value).add([1.0], wrong)


def test_a_window_of_nothing_but_what_is_missing_has_a_row() -> None:
    topology, _, moves = given_moves()
    none = moves.filter(lambda m: False).each()
    for name, windows in (("rows", tumbling(HOUR)), ("visits", session(60))):
        none.window(windows).fold(count(), name=name, gap=skip(after=5)).to_rows(name)
    driver = fed(topology, [move(1, 10), move(3, 10)])
    driver.advance(10)
    assert [(row["value"], row["missing"]) for row in driver.table("rows").values()] == [(0, 1)]
    assert driver.table("visits") == {}


def test_what_cannot_be_is_refused_where_it_is_declared() -> None:
    topology, source, moves = given_moves()
    with pytest.raises(DeclarationError, match=r"time=…"):
        events(topology, source).each().window(tumbling(HOUR))
    with pytest.raises(DeclarationError, match=r"of topology .other. returned"):
        events(Topology("other"), source)
    with pytest.raises(DeclarationError, match="merge=…"):
        moves.each().window(session(60)).fold(
            Aggregate(int, lambda n, _: n + 1, lambda n: n), name="visits"
        )
    with pytest.raises(DeclarationError, match="windows: size=0"):
        tumbling(0)
    with pytest.raises(DeclarationError, match="1000 windows"):
        hopping(24 * HOUR, 0.5)

    async def asked(_: Move) -> bool:
        return False

    each = moves.each()
    hours = each.window(tumbling(HOUR))
    wrong: list[tuple[str, Callable[[], Any]]] = [
        ("function", lambda: moves.filter("kind")),  # type: ignore[arg-type]
        ("async", lambda: moves.filter(asked)),
        ("called with one argument", lambda: moves.filter(lambda a, b: a)),  # type: ignore[arg-type,misc]
        (
            r"Aggregate\(merge\): it cannot be called with 2 arguments",
            lambda: hours.fold(
                Aggregate(int, lambda n, _: n + 1, lambda n: n, lambda a: a),  # type: ignore[arg-type,misc]
                name="v",
            ),
        ),
        ("returned", lambda: events(topology, "moves")),  # type: ignore[call-overload]
        ("events\\(time", lambda: events(topology, source, time="time")),  # type: ignore[call-overload]
        ("no type", lambda: events(topology, source, of="Move")),  # type: ignore[call-overload]
        ("tumbling", lambda: each.window(3600)),  # type: ignore[arg-type]
        ("count\\(\\)", lambda: hours.fold(count, name="v")),  # type: ignore[arg-type]
        ("JSON", lambda: each.fold(Aggregate(lambda: (1, 2), max, len), name="v")),
        ("reopen", lambda: each.fold(count(), name="v", reopen="start")),
        ("lane", lambda: each.fold(count(), name="v", lane="kind")),  # type: ignore[call-arg]
        ("each column once", lambda: moves.to_rows("t", name="v", columns={"stream": str})),
        ("each column once", lambda: moves.to_rows("t", name="v", columns={}, key={})),
        ("of the topology itself", lambda: moves.to("flights.late", name="v")),
        ("milliseconds", lambda: tumbling(1 / 3)),
        ("keep=None", lambda: each.window(tumbling(HOUR), keep=None)),  # type: ignore[arg-type]
        (
            "combine=5; give option → value",
            lambda: moves.by(lambda m: m.kind).fold(count(), name="v", combine=5),  # type: ignore[arg-type]
        ),
        ("key=1: give column", lambda: moves.to_rows("t", name="v", columns={}, key=1)),  # type: ignore[arg-type]
        ("no such view", lambda: emitted(topology, ["v"], "t")),  # type: ignore[call-overload]
        ("tables=5", lambda: moves.to_rows("t", name="v", columns={}, tables=5)),  # type: ignore[arg-type]
        ("closes=5", lambda: each.fold(count(), name="v", closes=5)),  # type: ignore[arg-type]
        ("name", lambda: each.fold(count(), name=["v"])),  # type: ignore[arg-type]
        (
            "declared with id",
            lambda: moves.to_rows(
                "t", name="v", columns={}, tables=[Table("t", {"id": str}, {})]
            ),
        ),
    ]  # fmt: skip
    for said, declare in wrong:
        with pytest.raises(DeclarationError, match=said):
            declare()
    assert not topology.views
    moves.to_rows("t", name="v", columns={})
