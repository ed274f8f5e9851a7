"""The whole demo, on the real broker, Faust worker and Spark, with the worker killed in mid-run."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sequitur.local.home import ROOT
from soak.ended import ended, run

pytestmark = pytest.mark.integration

# As a shell's `&` and some CI start it: with SIGINT ignored.
UNINTERRUPTED = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
DEMO = [sys.executable, "-m", "sequitur", "demo", "--folder"]


def left(folder: Path) -> list[str]:
    """The command lines of processes that still name the folder."""
    shown = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in shown.stdout.splitlines() if str(folder) in line]


def test_a_killed_worker_that_lost_its_data_makes_no_difference(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    options = ["--events", "10000", "--rate", "1000", "--kill-worker-at", "0.4"]
    done = run([*DEMO, str(folder), *options], 400, ROOT)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert any(line.startswith("Killing the worker") for line in lines)
    found = re.fullmatch(r"read store verified: (\d+) rows in 3 tables, 0 differences", lines[-1])
    assert found
    assert int(found[1]) > 5000
    for view in ("departure_board", "aircraft", "carrier_delay"):
        assert any(re.match(rf"  {view}: [\d,]+ received = ", line) for line in lines)
    assert (folder / "flights.sqlite").is_file()
    assert {path.stem for path in folder.glob("*.log")} == {"broker", "materializer", "worker"}
    assert not (folder / "kafka").exists()
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "status", "when", "runs"),
    [(signal.SIGINT, 130, "Sending", 3), (signal.SIGTERM, 143, "Starting Kafka", 1)],
)
def test_a_signal_stops_everything_that_was_started(
    tmp_path: Path, number: signal.Signals, status: int, when: str, runs: int
) -> None:
    output = tmp_path / "output"
    with output.open("wb") as file:
        demo = subprocess.Popen(
            [*UNINTERRUPTED, *DEMO, str(tmp_path / "demo")], cwd=ROOT, stdout=file, stderr=file
        )
    try:
        deadline = time.monotonic() + 120
        while when not in output.read_text() and time.monotonic() < deadline:
            assert demo.poll() is None, output.read_text()
            time.sleep(0.2)
        assert len(left(tmp_path)) >= runs
        demo.send_signal(number)
        assert ended(demo, 180, output) == status, output.read_text()
    finally:
        demo.kill()
    assert left(tmp_path) == []
