"""What tests fork ends with them, in whatever way they end."""

import subprocess
import sys
import time
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from sequitur.local.process import command_of
from tests import forked

pytestmark = pytest.mark.integration

TESTS = """
import os, sys, time
from pathlib import Path
from tests.forked import ForkedWorker

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    env = {**os.environ, "PYTHONPATH": str(folder)}
    print(ForkedWorker(["worker"], env, folder / "log").pid, flush=True)
    time.sleep(600)
"""


def test_their_server_imports_what_they_need_whoever_else_asked_it_for_something() -> None:
    server: Any = forkserver._forkserver
    assert server._preload_modules == forked.PRELOADED


def test_a_fork_ends_when_the_tests_are_killed(tmp_path: Path) -> None:
    (tmp_path / "worker").mkdir()
    working = "import time\nprint('it works', flush=True)\ntime.sleep(600)\n"
    (tmp_path / "worker" / "__main__.py").write_text(working)
    (tmp_path / "script.py").write_text(TESTS)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as tests:
        assert tests.stdout is not None
        worker = int(tests.stdout.readline())
        while not (tmp_path / "log").read_text():
            assert tests.poll() is None
            time.sleep(0.02)
        assert command_of(worker)
        tests.kill()
    until = time.monotonic() + 120
    while command_of(worker):
        assert time.monotonic() < until
        time.sleep(0.02)
