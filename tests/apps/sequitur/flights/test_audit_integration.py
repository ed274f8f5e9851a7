"""The flights with broken, unknown, failing and lost messages: all of them counted, audit clean."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from sequitur.flights.topology import SOURCE
from sequitur.local.process import spawn
from soak.ended import ended, run, stacks
from tests.conftest import BrokerAddress

pytestmark = pytest.mark.integration

EVENTS = 3_000


@pytest.fixture
def environment(broker: BrokerAddress, tmp_path: Path) -> dict[str, str]:
    places = {"SEQUITUR_BROKER": broker.address, "SEQUITUR_DATADIR": str(tmp_path / "data")}
    return {**os.environ, **places, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "worker.log"


def flights(*words: str) -> list[str]:
    return [sys.executable, "-m", "faust", "-A", "sequitur.flights", *words]


@pytest.fixture
def worker(
    environment: dict[str, str],
    log: Path,
    create_topics: Callable[[dict[str, int]], None],
) -> Iterator[subprocess.Popen[bytes]]:
    create_topics({SOURCE: 4})
    command = flights("worker", "-l", "info", "--without-web")
    with log.open("ab") as out:
        process = spawn(command, env=environment, output=out)
    yield process
    process.kill()
    process.wait()


def audited(environment: dict[str, str]) -> tuple[int, dict[str, Any], str]:
    """(exit status, report, standard error) of an audit."""
    command = flights("audit", "--json", "--patience", "2s")
    done = run(command, 240, env=environment)
    return done.returncode, orjson.loads(done.stdout) if done.stdout else {}, done.stderr


def at_rest(report: dict[str, Any], read: int) -> bool:
    """Whether all was read and nothing waits."""
    if not report or report["sources"][0]["read"] < read:
        return False
    views = report["views"]
    return all(not v["behind"] and not v["counted"]["waiting"] for v in views)


def test_what_was_planted_is_counted_and_nothing_vanished(
    broker: BrokerAddress,
    environment: dict[str, str],
    worker: subprocess.Popen[bytes],
    log: Path,
) -> None:
    shares = ["--malformed", "0.05", "--unknown", "0.02", "--faults", "0.01", "--lost", "0.01"]
    sending = [sys.executable, "-m", "sequitur.flights.sender", "--broker", broker.address]
    sent = run([*sending, "--events", str(EVENTS), *shares], 240, env=environment)
    assert sent.returncode == 0, sent.stderr
    planted = orjson.loads(sent.stdout)
    # The shares are there: each within five standard deviations.
    for name, share in {
        "malformed": 0.05,
        "unknown": 0.02,
        "failed": 0.01,
        "skipped": 0.01,
    }.items():
        assert abs(planted[name] - EVENTS * share) < 5 * (EVENTS * share) ** 0.5, planted

    until = time.monotonic() + 240
    while True:
        status, report, error = audited(environment)
        assert worker.poll() is None, log.read_text()[-4000:]
        sound = status != 2 and report["sound"]
        assert sound or status == 2, (error, report["violations"][:3], report["remarks"])
        if sound and at_rest(report, planted["read"]):
            break
        if time.monotonic() > until:
            pytest.fail(f"{report} {error}{stacks(worker, log)}")
        time.sleep(3)  # gaps are waited for a while

    (source,) = report["sources"]
    for name in ("read", "malformed", "unknown"):
        assert source[name] == planted[name], name
    for view in report["views"]:
        counted = view["counted"]
        assert counted["skipped"] == planted["skipped"], view
        assert counted["duplicate"] == planted["duplicate"], view
        assert counted["failed"] == (planted["failed"] if view["name"] == "aircraft" else 0)
        assert counted["received"] == source["events"]
        assert counted["late"] == 0
        assert counted["written"] == counted["processed"]

    worker.send_signal(signal.SIGTERM)
    assert ended(worker, 240, log) == 0
    # What failed, is malformed or never came is bad news.
    status, report, _ = audited(environment)
    assert (status, report["sound"], report["clean"]) == (1, True, False)
