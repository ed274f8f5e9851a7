"""A process that does not end says where it is."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from soak.ended import ended, run

PRINTS = "print('up', flush=True)"
STUCK = f"import time\ndef waiting_for_ever():\n  while True:\n    {PRINTS}\n"
STUCK += "    time.sleep(600)\nwaiting_for_ever()"


def test_what_does_not_end_shows_its_stacks_and_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=log, stderr=log)
    while not (tmp_path / "log").read_bytes():
        assert process.poll() is None
        time.sleep(0.02)
    with pytest.raises(RuntimeError, match="in waiting_for_ever"):
        ended(process, 0.1, tmp_path / "log")
    assert process.returncode is not None
    communicate = subprocess.Popen.communicate

    def soon(process: subprocess.Popen[str], timeout: float | None = None) -> tuple[str, str]:
        """Its time is up once it waits."""
        while timeout is not None and not up.exists():
            time.sleep(0.02)
        return communicate(process, timeout=timeout and 0.1)

    up = tmp_path / "up"
    monkeypatch.setattr(subprocess.Popen, "communicate", soon)
    with pytest.raises(RuntimeError, match="in waiting_for_ever"):
        run([sys.executable, "-c", STUCK.replace(PRINTS, f"open({str(up)!r}, 'w')")], 5)
