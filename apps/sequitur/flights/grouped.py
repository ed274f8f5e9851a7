"""What plain pandas makes of movements and weather: the tables that verbs have to come to.

By `groupby` and `merge_asof` on the whole year, without an event or an order of arrival in it. Each
takes the movements that arrived, and the flights' table that they were made from.
"""

import pandas as pd


def aircraft_day(moves: pd.DataFrame) -> "pd.Series[int]":
    """How often each aircraft left on each day (UTC): (tail, start of the day) → departures."""
    left = moves[moves["kind"] == "OUT"]
    return left.groupby(["tail", left["time"].dt.floor("D").rename("start")]).size()


def airport_hour(table: pd.DataFrame, moves: pd.DataFrame) -> "pd.Series[float]":
    """Mean delay of what left, in minutes: (origin, start of the hour, UTC) → mean."""
    left = _left(table, moves)
    hours = left["time"].dt.floor("h").rename("start")
    means: pd.Series[float] = left.groupby(["origin", hours])["dep_delay"].mean()
    return means


def flown(table: pd.DataFrame, moves: pd.DataFrame, reports: pd.DataFrame) -> pd.DataFrame:
    """The weather at its airport when an aircraft left: the latest report at or before that time.

    Returns (tail, number) → `origin`, `time`, `dep_delay`, and of the report `reported` (its time)
    and `wind_speed`: `NaT` and `NaN` before the first one.
    """
    right = reports[["origin", "time", "wind_speed"]].assign(reported=reports["time"])
    found = pd.merge_asof(_left(table, moves), right, on="time", by="origin")
    return found.set_index(["tail", "number"])


def _left(table: pd.DataFrame, moves: pd.DataFrame) -> pd.DataFrame:
    """The movements out of the gate, in the order of their time, with airport and delay."""
    left = moves.loc[moves["kind"] == "OUT", ["flight_id", "tail", "number", "time"]]
    left = left.merge(table[["flight_id", "origin", "dep_delay"]], on="flight_id")
    return left.drop(columns="flight_id").sort_values("time", kind="stable", ignore_index=True)
