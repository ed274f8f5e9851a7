"""The tables as topics hold them, and how many of their rows are wrong."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import orjson
import pandas as pd
from confluent_kafka import Message

from bench.verbs.deliveries import END, Delivery, Flights
from sequitur.flights.grouped import aircraft_day, airport_hour, flown

TABLES = ("aircraft_day", "airport_hour", "flown")
Row = tuple[str, int]
"""Aircraft or airport, with the start of a window (ms since 1970) or a movement's number."""
Rows = Mapping[Row, float | int | str | None]
"""Row → departures, mean delay in minutes, or the time of the report."""


@dataclass(slots=True)
class Table:
    """rows: of a table. missing: how many events were lost right before those of a row, of the rows
    before which some were."""

    rows: dict[Row, float | int | str | None] = field(default_factory=dict)
    missing: dict[Row, int] = field(default_factory=dict)


def expected(flights: Flights, delivery: Delivery) -> dict[str, Table]:
    """What pandas makes of the movements and reports that arrive."""
    there = np.unique(flights.moves_that_arrive(delivery)["index"])
    moves = flights.moves.iloc[there]
    reports = flights.reports.iloc[np.unique(flights.reports_that_arrive(delivery)["index"])]
    days, hours = aircraft_day(moves), airport_hour(flights.table, moves)
    found = flown(flights.table, moves, reports)["reported"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    lost_by_day, lost_by_hour = _missing(flights.table, moves)
    return {
        "aircraft_day": Table(
            {(tail, _ms(at)): int(n) for (tail, at), n in days.items()}, lost_by_day
        ),
        "airport_hour": Table(
            {(origin, _ms(at)): float(mean) for (origin, at), mean in hours.items()}, lost_by_hour
        ),
        # The reports' sequence is their time, which is no count: how many are missing is unknown.
        "flown": Table({at: None if pd.isna(time) else time for at, time in found.items()}),
    }


def _missing(table: pd.DataFrame, moves: pd.DataFrame) -> list[dict[Row, int]]:
    """What is lost before a movement that arrives: by its aircraft and day, and, as only what left
    is sent on to an airport, by airport and hour of the next departure."""
    behind = moves.sort_values(["tail", "number"])
    before = behind.groupby("tail")["number"].shift(fill_value=0)
    behind = behind.assign(lost=behind["number"] - before - 1, day=behind["time"].dt.floor("D"))
    days = behind.groupby(["tail", "day"])["lost"].sum()
    left = behind.assign(lost=behind.groupby("tail")["lost"].cumsum())
    left = left[left["kind"] == "OUT"]
    left = left.assign(
        lost=left["lost"] - left.groupby("tail")["lost"].shift(fill_value=0),
        origin=table["origin"].to_numpy()[left["flight_id"] - 1],
        hour=left["time"].dt.floor("h"),
    )
    hours = left.groupby(["origin", "hour"])["lost"].sum()
    return [
        {(name, _ms(at)): int(lost) for (name, at), lost in found[found > 0].items()}
        for found in (days, hours)
    ]


def table_of(records: Iterable[Message]) -> Table:
    """A table from its topic, each row as it was written last.

    A record is a peer's, with the row as its key, or row changes of Sequitur's.
    """
    found = Table()
    for record in records:
        value = orjson.loads(record.value() or b"null")
        if isinstance(value, dict) and "changes" in value:
            for change in value["changes"]:
                take(change["key"].values(), change["values"], found)
            continue
        name, _, number = (record.key() or b"").decode().rpartition(" ")
        if isinstance(value, dict):
            value = value["reported"] if "reported" in value else value["value"]
        found.rows[name, int(number)] = value
    return found


def take(key: Iterable[Any], values: Mapping[str, Any], found: Table) -> None:
    """Take a row of Sequitur's over. A count of nothing is no row: it says what is missing."""
    name, start = key
    if isinstance(start, str):
        start = datetime.fromisoformat(start)
    row = name, start if isinstance(start, int) else _ms(start)
    value = values.get("value")
    if type(value) is not int or value:
        found.rows[row] = value
    found.missing.pop(row, None)
    if (missing := values["missing"]) and name != END:
        found.missing[row] = missing


def wrong(right: Rows, got: Rows) -> int:
    """How many rows are missing, have another value, or should not be there.

    What comes of the aircraft that ends it all is not looked at.
    """
    last = max((at for _, at in right), default=0)
    beyond = sum(row not in right and row[0] != END and row[1] <= last for row in got)
    missing = object()
    return beyond + sum(got.get(row, missing) != value for row, value in right.items())


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)
