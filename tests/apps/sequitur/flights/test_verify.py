import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sequitur.flights.topology import AIRCRAFT, BOARD, CARRIER_DELAY
from sequitur.flights.verify import Verification, expected_tables, rows_of, stored_rows, verify
from stores.sinks.contract.values import TYPED, edge_rows, record_of, sets
from stores.sinks.sql.sqlite import SqliteSink
from topology import Table

pytestmark = pytest.mark.integration

TABLES = (BOARD, AIRCRAFT, CARRIER_DELAY)
SQL: dict[Any, str] = {str: "TEXT", int: "INTEGER"}


@pytest.fixture
def moves(moves_of: Callable[[int], pd.DataFrame]) -> pd.DataFrame:
    return moves_of(2000)


@pytest.fixture
def lost(moves: pd.DataFrame) -> np.ndarray:
    return np.random.default_rng(1).random(len(moves)) < 0.01


@pytest.fixture
def store(tmp_path: Path, flights: pd.DataFrame, moves: pd.DataFrame, lost: np.ndarray) -> Path:
    """A read store as it should be."""
    path = tmp_path / "read store.sqlite"
    frames = expected_tables(flights, moves, lost)
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in TABLES:
            write(connection, table, frames[table.name])
    return path


def write(connection: sqlite3.Connection, table: Table, frame: pd.DataFrame) -> None:
    types = {**table.key, **table.columns}
    columns = ", ".join(f'"{name}" {SQL[kind]}' for name, kind in types.items())
    connection.execute(f'CREATE TABLE "{table.name}" ({columns}, "_later" TEXT)')
    rows = [(*key, *row.values(), "x") for key, row in rows_of(frame, table).items()]
    marks = ", ".join("?" * (len(types) + 1))
    connection.executemany(f'INSERT INTO "{table.name}" VALUES ({marks})', rows)


def test_the_rows_are_right(flights: pd.DataFrame, moves: pd.DataFrame, lost: np.ndarray) -> None:
    nothing = np.zeros(len(moves), dtype=bool)
    frames = expected_tables(flights, moves, nothing)
    board = rows_of(frames["departure_board"], BOARD)
    assert board[1,] == {
        **{"tail": "N14228", "carrier": "UA", "flight": 1545, "origin": "EWR", "dest": "IAH"},
        **{"status": "IN", "departure_delay": 2, "arrival_delay": 11},
        **{"scheduled_out": "2013-01-01T10:15:00Z", "actual_out": "2013-01-01T10:17:00Z"},
        **{"scheduled_in": "2013-01-01T14:19:00Z", "actual_in": "2013-01-01T14:30:00Z"},
    }
    under_way = moves.drop_duplicates("flight_id", keep=False).iloc[-1]
    assert under_way.kind == "OUT"
    assert board[under_way.flight_id,]["status"] == "OUT"
    assert board[under_way.flight_id,]["actual_in"] is None
    tail = rows_of(frames["aircraft"], AIRCRAFT)["N14228",]
    own = moves[moves["tail"] == "N14228"]
    assert (tail["messages"], tail["last_number"]) == (len(own), own.number.max())
    assert tail["legs"] == (own.kind == "IN").sum()
    delays = rows_of(frames["carrier_delay"], CARRIER_DELAY)
    assert sum(row["flights"] for row in delays.values()) == (moves.kind == "OUT").sum()
    first = flights[flights.flight_id.isin(own[own.kind == "OUT"].flight_id)]
    assert delays["UA", "N14228"]["delay_minutes"] == first.dep_delay.sum()


def test_a_lost_message_leaves_its_trace(
    flights: pd.DataFrame, moves: pd.DataFrame, store: Path
) -> None:
    nothing = np.zeros(len(moves), dtype=bool)
    result = verify(store, TABLES, flights, moves, nothing)
    assert {d.table for d in result.differences} == {t.name for t in TABLES}


def test_a_right_store_has_no_difference(
    flights: pd.DataFrame, moves: pd.DataFrame, lost: np.ndarray, store: Path
) -> None:
    result = verify(store, TABLES, flights, moves, lost)
    assert result.differences == []
    assert str(result) == f"read store verified: {result.rows} rows in 3 tables, 0 differences"


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (
            "UPDATE departure_board SET origin = 'XXX' WHERE flight_id = 1",
            "departure_board (1,) origin: expected 'EWR', got 'XXX'",
        ),
        (
            "UPDATE departure_board SET actual_out = NULL WHERE flight_id = 1",
            "departure_board (1,) actual_out: expected '2013-01-01T10:17:00Z', got None",
        ),
        ("DELETE FROM aircraft WHERE tail = 'N14228'", "aircraft ('N14228',): row missing"),
        (
            "INSERT INTO carrier_delay (carrier, tail) VALUES ('UA', 'none')",
            "carrier_delay ('UA', 'none'): row not expected",
        ),
    ],
)
def test_a_planted_difference_is_found(
    flights: pd.DataFrame,
    moves: pd.DataFrame,
    lost: np.ndarray,
    store: Path,
    change: str,
    difference: str,
) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:
        assert connection.execute(change).rowcount == 1
    result = verify(store, TABLES, flights, moves, lost)
    assert [str(d) for d in result.differences] == [difference]
    assert str(result).startswith("read store differs: ")
    assert str(result).endswith("3 tables, 1 difference")


def test_a_value_of_another_type_differs(
    flights: pd.DataFrame, moves: pd.DataFrame, lost: np.ndarray, store: Path
) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("ALTER TABLE aircraft RENAME TO other")
        connection.execute("CREATE TABLE aircraft AS SELECT * FROM other")
        connection.execute("ALTER TABLE aircraft DROP COLUMN legs")
        connection.execute("ALTER TABLE aircraft ADD COLUMN legs REAL")
        connection.execute(
            "UPDATE aircraft SET legs = (SELECT legs FROM other WHERE other.tail = aircraft.tail)"
        )
    result = verify(store, TABLES, flights, moves, lost)
    assert {(d.table, d.column) for d in result.differences} == {("aircraft", "legs")}


def test_a_store_without_the_tables_lacks_every_row(
    tmp_path: Path, flights: pd.DataFrame, moves: pd.DataFrame, lost: np.ndarray
) -> None:
    sqlite3.connect(tmp_path / "empty").close()
    result = verify(tmp_path / "empty", TABLES, flights, moves, lost)
    assert len(result.differences) == result.rows > 0
    assert str(Verification(rows=2, tables=1)) == (
        "read store verified: 2 rows in 1 tables, 0 differences"
    )


def test_values_of_every_type_are_read_as_handlers_yield_them(tmp_path: Path) -> None:
    rows = edge_rows()
    with SqliteSink(tmp_path / "read.db", [TYPED]) as sink:
        sink.apply([record_of(0, *sets(rows))])
    found = stored_rows(tmp_path / "read.db", TYPED)
    assert found == {(row["id"],): {c: row[c] for c in TYPED.columns} for row in rows}
