"""The whole demo, on the real broker, Faust worker and Spark, with the worker killed in mid-run."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from checkout import chromium
from sequitur.local.home import ROOT
from soak.ended import ended, run

pytestmark = pytest.mark.integration

# As a shell's `&` and some CI start it: with SIGINT ignored.
UNINTERRUPTED = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
DEMO = [sys.executable, "-m", "sequitur", "demo", "--folder"]


def left(folder: Path) -> list[str]:
    """The command lines of the processes that still name the folder, or write to a file of it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            output = os.readlink(process / "fd" / "1")
        except OSError:  # it has ended meanwhile, or is somebody else's
            continue
        if str(folder) in words or output.startswith(str(folder)):
            found.append(words.lower())
    return found


def test_a_killed_worker_that_lost_its_data_makes_no_difference(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    options = ["--events", "4000", "--rate", "400", "--kill-worker-at", "0.4"]
    done = run([*DEMO, str(folder), *options], 400, ROOT)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert any(line.startswith("Killing the worker") for line in lines)
    found = re.fullmatch(r"read store verified: (\d+) rows in 3 tables, 0 differences", lines[-1])
    assert found
    assert int(found[1]) > 2000
    for view in ("departure_board", "aircraft", "carrier_delay"):
        assert any(re.match(rf"  {view}: [\d,]+ received = ", line) for line in lines)
    assert (folder / "flights.sqlite").is_file()
    logs = {path.stem for path in folder.glob("*.log")}
    assert logs == {"broker", "console", "materializer", "worker"}
    assert "Traceback" not in (folder / "console.log").read_text()
    assert not (folder / "kafka").exists()
    assert left(tmp_path) == []


@contextmanager
def running(
    folder: Path, until: str, *options: str
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A demo that has said something, and all that it has said; afterwards nothing is left."""
    output = folder / "output"
    words = [*UNINTERRUPTED, *DEMO, str(folder / "demo"), *options]
    with output.open("wb") as file:
        demo = subprocess.Popen(words, cwd=ROOT, stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + 300
        while until not in output.read_text() and time.monotonic() < deadline:
            assert demo.poll() is None, output.read_text()
            time.sleep(0.2)
        yield demo, output.read_text()
    finally:
        demo.kill()
    assert left(folder) == []


def stop(demo: subprocess.Popen[bytes], number: signal.Signals, folder: Path) -> int:
    demo.send_signal(number)
    return ended(demo, 180, folder / "output")


def test_a_signal_stops_everything_that_was_started(tmp_path: Path) -> None:
    with running(tmp_path, "Starting Kafka", "--events", "1000") as (demo, _):
        assert len(left(tmp_path)) >= 1
        assert stop(demo, signal.SIGTERM, tmp_path) == 143


def test_the_console_shows_aircraft_going_through_until_ctrl_c(tmp_path: Path) -> None:
    # So slow that the demo outlasts any browser.
    with running(tmp_path, "in a browser", "--events", "20000", "--rate", "30") as (demo, said):
        address = re.search(r"in a browser: (http://127.0.0.1:\d+/)", said)
        assert address
        if chromium.missing() is None:
            _watch(address[1])
        running_now = left(tmp_path)
        for part in ("sequitur demo", "kafka.kafka", "faust", "console", "materialize", "spark"):
            assert any(part in words for words in running_now), (part, running_now)
        assert stop(demo, signal.SIGINT, tmp_path) == 130


def _watch(address: str) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium.browser_file(), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.set_default_timeout(120_000)
        page.goto(address)
        row = page.get_by_role("region", name="Views", exact=True).get_by_role("row")
        processed = row.filter(has_text="departure_board").get_by_role("cell").nth(2)
        expect(processed).to_have_text(re.compile("[1-9]"), timeout=120_000)
        first = processed.inner_text()
        expect(processed).not_to_have_text(first, timeout=120_000)
        browser.close()
