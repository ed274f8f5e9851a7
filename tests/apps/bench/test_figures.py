"""What scenarios make of what they saw."""

import pytest

from bench.scenarios.latency import figures
from bench.scenarios.recovery import restored

LOG = """\
[2026-01-31 12:00:02,000] [7] [INFO] restored x-same-changelog/0: 1000 rows in 0.5 s (2000 rows/s)
[2026-01-31 12:00:02,100] [7] [INFO] [^--Consumer]: Starting...
[2026-01-31 12:00:02,500] [7] [INFO] restored x-same-changelog/1: 1500 rows in 1.0 s (1500 rows/s)
"""


def test_recovery_counts_from_the_first_tables_start_to_the_last_ones_end() -> None:
    rows, rate = restored(LOG)
    assert rows == 2500
    assert rate == pytest.approx(2500 / 1.0)
    assert restored("no such line") == (0, 0.0)


def test_latency_is_from_append_and_leaves_the_warm_up_out() -> None:
    appended = {(1, n): (1000.0 + 10 * n, 1005.0 + 10 * n) for n in range(101)}
    seen = {event: at + (500 if event[1] < 20 else 20) for event, (_, at) in appended.items()}
    found = figures(seen, appended)
    assert found["p50"] == found["p99"] == found["most"] == pytest.approx(20)
    assert found["sent"] == pytest.approx(25)
    assert found["rate"] == pytest.approx(101)
