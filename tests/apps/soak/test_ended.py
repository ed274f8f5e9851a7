"""A process that does not end says where it is."""

import subprocess
import sys
from pathlib import Path

import pytest

from soak.ended import ended, run

STUCK = "import time\ndef waiting_for_ever():\n    time.sleep(600)\nwaiting_for_ever()"


def test_what_does_not_end_shows_its_stacks_and_is_gone(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=log, stderr=log)
    with pytest.raises(RuntimeError, match="in waiting_for_ever"):
        ended(process, 2, tmp_path / "log")
    assert process.returncode is not None
    with pytest.raises(RuntimeError, match="in waiting_for_ever"):
        run([sys.executable, "-c", STUCK], 2)
