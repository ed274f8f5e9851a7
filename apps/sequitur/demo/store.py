"""What the demo looks up in the SQLite read store while the materializer fills it."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from topology import Table


def count_rows(store: Path, tables: Iterable[Table]) -> int:
    """Count the rows of the tables that are there by now."""
    rows = 0
    for table in tables:
        with suppress(sqlite3.OperationalError), closing(_open(store)) as connection:
            rows += connection.execute(f'SELECT count(*) FROM "{table.name}"').fetchone()[0]
    return rows


def stored_offsets(store: Path) -> dict[tuple[str, int], int]:
    """Return (topic, partition) → the offset up to which the store has the output topics."""
    with suppress(sqlite3.OperationalError), closing(_open(store)) as connection:
        found = connection.execute("SELECT topic, partition, next_offset FROM _positions")
        return {(topic, partition): offset for topic, partition, offset in found}
    return {}


def _open(store: Path) -> sqlite3.Connection:
    return sqlite3.connect(store.resolve().as_uri() + "?mode=ro", uri=True, timeout=10)
