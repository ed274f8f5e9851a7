"""The weather at each departure, by a lookup, equals what pandas makes by merge_asof."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import orjson
import pandas as pd

from sequitur.flights.grouped import flown
from sequitur.flights.movements import Messages, movements, source_table
from sequitur.flights.weather import report_messages, weather
from topology import Inspector, Topology, TopologyTestDriver, monotonic, rebuild_stream
from topology.verbs import as_of_time, count, events

HOUR, DAY = 3600, 24 * 3600
COUNT = 1_500


@dataclass
class Move:
    """A movement, as far as it is read."""

    tail: str
    number: int
    kind: str
    origin: str
    time: datetime


@dataclass
class Weather:
    """A report, as far as it is read."""

    time: datetime
    wind_speed: float | None


@dataclass
class Flown:
    """A departure with its weather."""

    origin: str
    reported: datetime | None
    wind: float | None


def topology() -> Topology:
    """The departures with their weather, and how many had much wind, by airport."""
    flights = Topology("flights")
    moves = flights.source("moves", inspector=Inspector("tail", "number", "kind"))
    reports = flights.source(
        "weather", inspector=Inspector("origin", "time"), sequence=monotonic(settle=5)
    )
    wind = events(flights, reports, of=Weather, time=lambda report: report.time).latest(
        name="wind", late=rebuild_stream()
    )
    out = events(flights, moves, of=Move, time=lambda move: move.time).filter(
        lambda move: move.kind == "OUT"
    )

    def with_wind(move: Move, report: Weather | None) -> Flown:
        if report is None:
            return Flown(move.origin, None, None)
        return Flown(move.origin, report.time, report.wind_speed)

    found = out.lookup(
        wind, key=lambda move: move.origin, at=as_of_time(wait=2 * HOUR, keep=DAY),
        merge=with_wind, name="flown",
    )  # fmt: skip
    found.to_rows("flown", {"reported": lambda it: it.reported, "wind": lambda it: it.wind})
    windy = found.filter(lambda it: (it.wind or 0) > 15).by(lambda it: it.origin)
    windy.fold(count(), name="windy").to_rows("windy")
    return flights


def test_the_weather_at_each_departure_equals_merge_asof() -> None:
    table = source_table()
    moves = movements(table, COUNT)
    reports = weather()
    # A day of reports more, so that the last departure is passed by one.
    reports = reports[reports["time"] <= moves["time"].iloc[-1] + pd.Timedelta(days=1)]
    right = flown(table, moves, reports)
    messages, told = Messages(table, moves), report_messages(reports)
    sent = [("moves", messages[at], time) for at, time in enumerate(moves["time"])]
    sent += [("weather", told[at], time) for at, time in enumerate(reports["time"])]
    chance = np.random.default_rng(1)
    late = np.minimum(chance.lognormal(np.log(120), 3, len(sent)), 6 * HOUR)
    arrived = sorted(range(len(sent)), key=lambda at: sent[at][2].timestamp() + late[at])
    driver = TopologyTestDriver(topology())
    for number, at in enumerate(arrived):
        driver.pipe(sent[at][0], orjson.loads(sent[at][1]))
        if number % 100 == 0:
            driver.advance(2)
    driver.advance(10)
    rows = {
        (row["stream"], row["sequence"]): (row.get("reported"), row.get("wind"))
        for row in driver.table("flown").values()
    }
    assert all(row["final"] for row in driver.table("flown").values())
    wanted = {
        key: (
            None if pd.isna(at) else f"{at:%Y-%m-%dT%H:%M:%S.%fZ}",
            None if pd.isna(wind) else wind,
        )
        for key, at, wind in right[["reported", "wind_speed"]].itertuples()
    }
    assert rows.keys() == wanted.keys()
    assert [(key, rows[key], row) for key, row in wanted.items() if rows[key] != row] == []
    windy = right[right["wind_speed"] > 15].groupby("origin").size().to_dict()
    assert {row["key"]: row["value"] for row in driver.table("windy").values()} == windy
    assert driver.counts("wind").rebuilt > 0
