import sqlite3
from contextlib import closing
from pathlib import Path

from sequitur.demo.display import Snapshot
from sequitur.demo.run import Outcome
from sequitur.demo.summary import summary
from sequitur.flights.verify import Verification
from topology import Counts


def test_it_says_where_every_message_ended(tmp_path: Path) -> None:
    store = tmp_path / "read.sqlite"
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("CREATE TABLE carrier_delay (carrier, tail, flights, delay_minutes)")
        rows = [("AA", "N1", 1, 10), ("AA", "N2", 3, 10), ("UA", "N1", 1, 60)]
        connection.executemany("INSERT INTO carrier_delay VALUES (?, ?, ?, ?)", rows)
    views = {
        "clean": Counts(received=12, processed=6, passed=4, duplicate=2),
        "tried": Counts(received=12, processed=8, duplicate=2, late=1, failed=1, skipped=3),
    }
    text = summary(Outcome(Verification(), Snapshot(12, 12, views), 6.0), store)
    assert "it took 6 s (2 messages a second)" in text
    assert "  clean: 12 received = 6 handled + 4 passed by (not its kind) + 2 duplicates\n" in text
    assert (
        "  tried: 12 received = 8 handled + 2 duplicates + 1 late + 1 failed; "
        "gave up 3 missing ones\n"
    ) in text
    assert "Late ones came after their gap" in text
    assert "UA 60.0 min, AA 5.0 min" in text
    assert str(store) in text
