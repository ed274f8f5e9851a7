"""A process that does not end says where it is."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from soak.ended import ended, run

STUCK = "import time\ndef waiting_for_ever():\n  while True:\n    print('up', flush=True)\n"
STUCK += "    time.sleep(600)\nwaiting_for_ever()"


def test_what_does_not_end_shows_its_stacks_and_is_gone(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=log, stderr=log)
    while not (tmp_path / "log").read_bytes():
        assert process.poll() is None
        time.sleep(0.02)
    with pytest.raises(RuntimeError, match="in waiting_for_ever"):
        ended(process, 0.1, tmp_path / "log")
    assert process.returncode is not None
    with pytest.raises(RuntimeError, match="in waiting_for_ever"):
        run([sys.executable, "-c", STUCK], 5)
