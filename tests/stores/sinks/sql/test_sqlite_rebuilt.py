"""Streams that are rebuilt, down to the tables: those are the fold of all events in sequence."""

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stores.sinks import OutputRecord
from stores.sinks.sql.sqlite import SqliteSink
from tests.examples import some
from tests.topology.deliveries import Arrival, batches, cuts, deliveries, fed
from tests.topology.engine.rebuilding import Rebuilding, in_sequence, rebuilding


def outputs(partition: Rebuilding) -> list[OutputRecord]:
    written = partition.written["shop.board"]
    return [("shop.board", 0, offset, out.value) for offset, out in enumerate(written)]


def tables(records: Sequence[OutputRecord], sizes: Sequence[int]) -> dict[str, set[Any]]:
    """Table → its rows as sets of what is not null, the records being applied in batches."""
    found: dict[str, set[Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "read.db")
        for batch in batches(records, sizes):
            with SqliteSink(path) as sink:
                done = sink.apply(batch)
                # What is delivered again changes nothing.
                again = sink.apply(batch)
            assert (done.dead, again.applied) == (0, 0)
        with closing(sqlite3.connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (name,) in names.fetchall():
                if not name.startswith("_"):
                    rows = connection.execute(f'SELECT * FROM "{name}"').fetchall()
                    found[name] = {
                        frozenset((k, v) for k, v in dict(row).items() if v is not None)
                        for row in rows
                    }
    return {name: rows for name, rows in found.items() if rows}


@settings(max_examples=some(40))
@given(arrivals=deliveries(streams="ab", events=7), sizes=cuts(), after=st.sampled_from([1, 3]))
def test_rebuilt_streams_leave_the_tables_that_the_right_order_would_have_left(
    arrivals: list[Arrival], sizes: list[int], after: int
) -> None:
    partition = Rebuilding(rebuilding(after))
    for moment in fed(arrivals, sizes):
        partition.live([moment])
        partition.settle()
    while partition.view().rebuilds or partition.due < float("inf"):
        partition.settle()
        partition.advance(10**9)
    wanted = in_sequence(arrivals)
    assert tables(outputs(partition), sizes) == tables(outputs(wanted), [100])
