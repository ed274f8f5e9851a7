"""What a newcomer should know after the demo, in a screenful."""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from sequitur.demo.run import Outcome

_WORST = (
    "SELECT carrier, sum(flights), round(1.0 * sum(delay_minutes) / sum(flights), 1) AS average "
    "FROM carrier_delay GROUP BY carrier ORDER BY average DESC LIMIT 3"
)


def summary(outcome: Outcome, store: Path) -> str:
    """Return the text; `store` is the read store."""
    snapshot = outcome.snapshot
    rate = snapshot.total / max(outcome.seconds, 1e-9)
    lines = [
        "",
        f"{snapshot.total:,} messages came late, twice or not at all; from the first of them to "
        f"the last row it took {outcome.seconds:.0f} s ({rate:,.0f} messages a second).",
        "Each view put its aircraft's events back in order by itself and handled each one once:",
    ]
    for name, counts in snapshot.views.items():
        lines.append(
            f"  {name}: {counts.received:,} received = {counts.processed:,} handled"
            + (f" + {counts.passed:,} passed by (not its kind)" if counts.passed else "")
            + f" + {counts.duplicate:,} duplicates"
            + (f" + {counts.late:,} late" if counts.late else "")
            + (f" + {counts.failed:,} failed" if counts.failed else "")
            + (f"; gave up {counts.skipped:,} missing ones" if counts.skipped else "")
        )
    if any(counts.late for counts in snapshot.views.values()):
        lines.append(
            "Late ones came after their gap had been skipped, so the views do without them: "
            "skip(after=…) is too short for this network."
        )
    with closing(sqlite3.connect(store)) as connection:
        worst = connection.execute(_WORST).fetchall()
    delays = ", ".join(f"{carrier} {minutes} min" for carrier, _, minutes in worst)
    lines += [
        f"The carriers that left latest, on average: {delays}.",
        f"The read store stays, an SQLite file: {store}",
        f'  {_python()} -c "import sqlite3; print(*sqlite3.connect({_near(store)!r}).execute('
        "'SELECT * FROM aircraft ORDER BY legs DESC LIMIT 5'), sep='\\n')\"",
        "",
    ]
    return "\n".join(lines)


def _near(path: Path) -> str:
    """The path as one would type it here."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _python() -> str:
    return _near(Path(sys.executable))
