"""The tables as topics hold them, and how many of their rows are wrong."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import orjson
import pandas as pd
from confluent_kafka import Message

from bench.verbs.deliveries import END, Flights
from sequitur.flights.grouped import aircraft_day, airport_hour, flown

TABLES = ("aircraft_day", "airport_hour", "flown")
Row = tuple[str, int]
"""Aircraft or airport, with the start of a window (ms since 1970) or a movement's number."""
Rows = Mapping[Row, float | int | str | None]
"""Row → departures, mean delay in minutes, or the time of the report."""


def expected(flights: Flights) -> dict[str, Rows]:
    """What pandas makes of all movements and reports, by table."""
    days = aircraft_day(flights.moves)
    hours = airport_hour(flights.table, flights.moves)
    found = flown(flights.table, flights.moves, flights.reports)["reported"]
    reported = found.dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "aircraft_day": {(tail, _ms(at)): int(n) for (tail, at), n in days.items()},
        "airport_hour": {(origin, _ms(at)): float(mean) for (origin, at), mean in hours.items()},
        "flown": {at: None if pd.isna(time) else time for at, time in reported.items()},
    }


def rows_of(records: Iterable[Message]) -> Rows:
    """A table from its topic, each row as it was written last.

    A record is a peer's, with the row as its key, or row changes of Sequitur's.
    """
    found: dict[Row, float | int | str | None] = {}
    for record in records:
        value = orjson.loads(record.value() or b"null")
        if isinstance(value, dict) and "changes" in value:
            for change in value["changes"]:
                name, start = change["key"].values()
                at = start if isinstance(start, int) else _ms(datetime.fromisoformat(start))
                found[name, at] = change["values"]["value"]
            continue
        name, _, number = (record.key() or b"").decode().rpartition(" ")
        if isinstance(value, dict):
            value = value["reported"] if "reported" in value else value["value"]
        found[name, int(number)] = value
    return found


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
