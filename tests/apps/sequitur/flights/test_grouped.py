"""The tables that verbs have to come to, against a few rows counted by hand."""

from collections.abc import Callable
from datetime import UTC, datetime

import orjson
import pandas as pd

from sequitur.flights.grouped import aircraft_day, airport_hour, flown
from sequitur.flights.weather import report_messages, weather

MovesOf = Callable[[int], pd.DataFrame]


def at(hour: int, minute: int = 0, day: int = 1) -> datetime:
    return datetime(2013, 1, day, hour, minute, tzinfo=UTC)


TABLE = pd.DataFrame(
    {
        "flight_id": [1, 2, 3, 4],
        "origin": ["JFK", "JFK", "EWR", "JFK"],
        "dep_delay": [10.0, -3.0, 5.0, 1.0],
    }
)
MOVES = pd.DataFrame(
    [
        (at(10), "OUT", 1, "N1", 1),
        (at(10, 59), "OUT", 2, "N2", 1),
        (at(11), "IN", 1, "N1", 2),
        (at(11), "OUT", 3, "N1", 3),
        (at(0, day=2), "OUT", 4, "N1", 4),
    ],
    columns=["time", "kind", "flight_id", "tail", "number"],
)
REPORTS = pd.DataFrame(
    [(at(10), "JFK", 7.0), (at(10, 30), "JFK", None), (at(11), "EWR", 9.0), (at(12), "JFK", 8.0)],
    columns=["time", "origin", "wind_speed"],
)


def test_only_what_left_is_counted_by_aircraft_and_day() -> None:
    found = aircraft_day(MOVES)
    assert found.to_dict() == {("N1", at(0)): 2, ("N2", at(0)): 1, ("N1", at(0, day=2)): 1}


def test_an_hours_mean_is_of_its_airport_alone() -> None:
    found = airport_hour(TABLE, MOVES)
    assert found.to_dict() == {
        ("JFK", at(10)): 3.5,
        ("EWR", at(11)): 5.0,
        ("JFK", at(0, day=2)): 1.0,
    }


def test_the_report_of_a_movement_is_the_latest_at_or_before_it() -> None:
    found = flown(TABLE, MOVES, REPORTS)
    assert found["reported"].to_dict() == {
        ("N1", 1): at(10),
        ("N2", 1): at(10, 30),
        ("N1", 3): at(11),
        ("N1", 4): at(12),
    }
    assert pd.isna(found.loc[("N2", 1), "wind_speed"])


def test_what_arrived_alone_counts(flights: pd.DataFrame, moves_of: MovesOf) -> None:
    moves = moves_of(2_000)
    gone = moves["number"] == 1
    assert aircraft_day(moves[~gone]).sum() == ((moves["kind"] == "OUT") & ~gone).sum()
    assert set(flown(flights, moves[~gone], weather()).index) == {
        (tail, number)
        for tail, number, kind in moves[["tail", "number", "kind"]].itertuples(index=False)
        if kind == "OUT" and number > 1
    }


def test_an_airport_reports_once_an_hour_at_most_and_in_order() -> None:
    reports = weather()
    assert len(reports) == 26_115
    assert reports["time"].is_monotonic_increasing
    assert not reports.duplicated(["origin", "time"]).any()
    first, *_, last = map(orjson.loads, report_messages(reports))
    assert (first["origin"], first["time"]) == ("EWR", "2013-01-01T06:00:00Z")
    assert (first["wind_speed"], first["wind_gust"]) == (10.35702, None)
    assert (last["origin"], last["time"]) == ("LGA", "2013-12-30T23:00:00Z")
