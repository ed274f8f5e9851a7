"""A worker that is told to stop while it starts ends as one that is told to later."""

import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, os, signal
from topology import Topology
from topology.faust import compile

app = compile(Topology("shop"))

async def start():
    if {told}:
        os.kill(os.getpid(), signal.SIGTERM)
        while not worker.should_stop:
            await asyncio.sleep(0)
    raise asyncio.InvalidStateError("what it waited for is gone")

app.maybe_start = start
worker = app.Worker()
worker.execute_from_commandline()
"""


@pytest.mark.parametrize(("told", "status"), [(True, 0), (False, 2)])
def test_its_status_says_whether_it_failed(told: bool, status: int) -> None:
    script = SCRIPT.format(told=told)
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.returncode == status, found.stderr
