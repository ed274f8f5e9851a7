"""Compare the read store with what plain pandas makes of the source table.

The expected tables come from the table and the movements that were not lost, by grouping, without
an event, a handler or an order of arrival in it: another way to the same rows.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stores.sinks.columns import kind_of
from stores.sinks.sql.sqlite_values import yielded
from topology import Table
from topology.model.counted import counted

Rows = dict[tuple[Any, ...], dict[str, Any]]
"""Key values, in the order of the table's key → column → value."""


@dataclass(frozen=True)
class Difference:
    """One value that is not as it should be; `column` is None where a whole row is."""

    table: str
    key: tuple[Any, ...]
    column: str | None
    expected: Any
    got: Any

    def __str__(self) -> str:
        if self.column is None:
            what = "row missing" if self.got is None else "row not expected"
            return f"{self.table} {self.key}: {what}"
        return (
            f"{self.table} {self.key} {self.column}: expected {self.expected!r}, got {self.got!r}"
        )


@dataclass
class Verification:
    """How many rows of how many tables were expected, and every difference."""

    rows: int = 0
    tables: int = 0
    differences: list[Difference] = field(default_factory=list)

    def __str__(self) -> str:
        found = len(self.differences)
        outcome = "differs" if found else "verified"
        return (
            f"read store {outcome}: {self.rows} rows in {self.tables} tables, "
            f"{counted(found, 'difference')}"
        )


def expected_tables(
    table: pd.DataFrame, moves: pd.DataFrame, lost: np.ndarray
) -> dict[str, pd.DataFrame]:
    """Return table name → the rows it should have.

    table, moves: as `sequitur.flights.movements` makes them. lost: a boolean per row of `moves`.
    """
    heard = moves[~lost][["flight_id", "kind", "number", "tail"]]
    heard = heard.merge(table, on="flight_id")
    heard["landed"] = heard["kind"] == "IN"
    heard["at"] = heard["in"].where(heard["landed"], heard["out"])
    heard = heard.sort_values(["tail", "number"])
    return {
        "departure_board": _board(heard),
        "aircraft": _aircraft(heard),
        "carrier_delay": _carrier_delay(heard[~heard["landed"]]),
    }


def _board(heard: pd.DataFrame) -> pd.DataFrame:
    """The last that was heard of each flight; nothing of the arrival unless it was heard."""
    last = heard.drop_duplicates("flight_id", keep="last")
    return pd.DataFrame(
        {
            **{name: last[name] for name in ("flight_id", "tail", "carrier", "flight")},
            **{name: last[name] for name in ("origin", "dest")},
            "status": last["kind"],
            "scheduled_out": _iso(last["scheduled_out"]),
            "actual_out": _iso(last["out"]),
            "departure_delay": last["dep_delay"],
            "scheduled_in": _iso(last["scheduled_in"]),
            "actual_in": _iso(last["in"].where(last["landed"])),
            "arrival_delay": last["arr_delay"].where(last["landed"]),
        }
    )


def _aircraft(heard: pd.DataFrame) -> pd.DataFrame:
    by_tail = heard.assign(
        minutes=heard["air_time"].where(heard["landed"], 0),
        airport=heard["dest"].where(heard["landed"], heard["origin"]),
        time=_iso(heard["at"]),
    ).groupby("tail")
    return by_tail.agg(
        messages=("number", "size"),
        legs=("landed", "sum"),
        minutes_in_air=("minutes", "sum"),
        last_airport=("airport", "last"),
        last_movement=("kind", "last"),
        last_time=("time", "last"),
        last_number=("number", "max"),
    ).reset_index()


def _carrier_delay(left: pd.DataFrame) -> pd.DataFrame:
    grouped = left.groupby(["carrier", "tail"])["dep_delay"]
    return grouped.agg(flights="size", delay_minutes="sum", worst_delay="max").reset_index()


def _iso(times: pd.Series) -> pd.Series:
    return times.dt.strftime("%Y-%m-%dT%H:%M:%SZ")


def rows_of(frame: pd.DataFrame, table: Table) -> Rows:
    """Turn a frame into rows of the declared types; NaN becomes None."""
    types = {**table.key, **table.columns}
    values = (_typed(frame[name], kind) for name, kind in types.items())
    width = len(table.key)
    return {
        row[:width]: dict(zip(table.columns, row[width:], strict=True))
        for row in zip(*values, strict=True)
    }


def _typed(column: pd.Series, kind: Any) -> list[Any]:
    return [None if pd.isna(value) else kind(value) for value in column.tolist()]


def stored_rows(store: Path, table: Table) -> Rows:
    """Read a table of the SQLite read store, values of the declared types.

    A table that is not there has no rows.
    """
    kinds = {name: kind_of(each) for name, each in (*table.key.items(), *table.columns.items())}
    names = ", ".join(f'"{name}"' for name in kinds)
    width = len(table.key)
    with closing(sqlite3.connect(store.resolve().as_uri() + "?mode=ro", uri=True)) as connection:
        try:
            found = connection.execute(f'SELECT {names} FROM "{table.name}"').fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return {}
            raise
    rows = (
        tuple(
            None if value is None else yielded(value, kind)
            for value, kind in zip(row, kinds.values(), strict=True)
        )
        for row in found
    )
    return {row[:width]: dict(zip(table.columns, row[width:], strict=True)) for row in rows}


def compare(expected: Mapping[str, Rows], got: Mapping[str, Rows]) -> Verification:
    """Compare table by table, row by row, column by column; a value of another type differs."""
    result = Verification(rows=sum(map(len, expected.values())), tables=len(expected))
    for name, rows in expected.items():
        stored = got.get(name, {})
        result.differences += _differences(name, rows, stored)
    return result


def _differences(name: str, expected: Rows, stored: Rows) -> Iterable[Difference]:
    for key, row in expected.items():
        found = stored.get(key)
        if found is None:
            yield Difference(name, key, None, row, None)
        else:
            for column, value in row.items():
                if found[column] != value or type(found[column]) is not type(value):
                    yield Difference(name, key, column, value, found[column])
    for key in stored.keys() - expected.keys():
        yield Difference(name, key, None, None, stored[key])


def verify(
    store: Path,
    tables: Iterable[Table],
    source: pd.DataFrame,
    moves: pd.DataFrame,
    lost: np.ndarray,
) -> Verification:
    """Compare the read store with the source table over the movements that were not lost."""
    frames = expected_tables(source, moves, lost)
    declared = {table.name: table for table in tables}
    return compare(
        {name: rows_of(frame, declared[name]) for name, frame in frames.items()},
        {name: stored_rows(store, declared[name]) for name in frames},
    )
