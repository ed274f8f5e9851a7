"""Two workers under one supervisor, on the real broker: kills of each, and the end."""

import os
import re
import signal
import sys

import orjson
import pytest

from sequitur.local.process import command_of, spawn
from tests.topology.faust.worker.test_worker_pages import APP as APP
from tests.topology.faust.worker.test_worker_pages import asked, figures
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

STREAMS = [f"s{n}".encode() for n in range(20)]


def start(worker: Worker) -> None:
    """Start two workers; a log that is there is gone on with."""
    words = ("worker", "--processes", "2", "-l", "info")
    command = worker.command(*words, SEQUITUR_METRICS="0")
    command[2] = "topology.faust"
    with worker.log_file.open("ab") as log:
        worker.process = spawn(command, env=worker.environment, output=log)


def processes(worker: Worker) -> dict[str, list[int]]:
    """Worker's number → its processes, the last one last."""
    found: dict[str, list[int]] = {"1": [], "2": []}
    for number, pid in re.findall(r"worker (\d) is process (\d+)", worker.log_file.read_text()):
        found[number].append(int(pid))
    return found


def ready(worker: Worker) -> bool:
    return asked(worker, "/ready")[0] == 200


def test_kills_restarts_and_ends(worker: Worker) -> None:
    start(worker)
    worker.wait_until(lambda: ready(worker))
    worker.send(*((stream, orjson.dumps({"seq": 1})) for stream in STREAMS))
    worker.wait("board", len(STREAMS))

    killed = processes(worker)["1"][-1]
    os.kill(killed, signal.SIGKILL)
    worker.send(*((stream, orjson.dumps({"seq": 2})) for stream in STREAMS))
    worker.wait("board", 2 * len(STREAMS))
    worker.wait_until(lambda: len(processes(worker)["1"]) == 2 and ready(worker))
    processed = "sequitur_events_total", "board", "processed"
    worker.wait_until(lambda: figures(worker)[processed] == 2 * len(STREAMS))
    assert figures(worker)["sequitur_worker_starts_total",] == 3
    log = worker.log_file.read_text()
    assert "worker 1 was killed by SIGKILL" in log
    assert re.search(r"^worker-1 \| .*Worker ready", log, re.MULTILINE)
    assert re.search(r"^worker-2 \| .*Worker ready", log, re.MULTILINE)
    folder = worker.folder / "data-one"
    assert sorted(each.name for each in folder.iterdir()) == ["worker-1", "worker-2"]

    last = [pids[-1] for pids in processes(worker).values()]
    assert worker.end(signal.SIGTERM) == 0
    assert not any(map(command_of, last))

    worker.log_file.unlink()
    start(worker)
    worker.wait_until(lambda: ready(worker))
    left = [pids[-1] for pids in processes(worker).values()]
    assert all(map(command_of, left))
    worker.end(signal.SIGKILL)
    if sys.platform == "linux":
        worker.wait_until(lambda: not any(map(command_of, left)))
