import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sequitur.demo.processes import Child, ChildFailed, stop_all

STUBBORN = "import signal, time; signal.signal(15, lambda *_: None); print('up', flush=True)"
FOREVER = "import time; print('up', flush=True); time.sleep(600)"


def child(tmp_path: Path, name: str, code: str) -> Child:
    started = Child(name, [sys.executable, "-c", code], tmp_path / f"{name}.log")
    deadline = time.monotonic() + 240
    while not started.log.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    return started


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_stop_all_ends_what_obeys_and_kills_what_does_not(tmp_path: Path) -> None:
    obeys = child(tmp_path, "obeys", FOREVER)
    stubborn = child(tmp_path, "stubborn", f"{STUBBORN}\nwhile True: time.sleep(1)")
    obeys.check()
    assert stop_all([obeys], seconds=120) == []
    assert stop_all([obeys, stubborn], seconds=1) == ["stubborn"]
    assert not alive(obeys.pid)
    assert not alive(stubborn.pid)
    assert stop_all([obeys, stubborn], seconds=1) == []


def test_a_child_that_failed_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    fails = child(tmp_path, "worker", "print('what went wrong'); raise SystemExit(3)")
    assert fails.ended(time.monotonic() + 240)
    with pytest.raises(ChildFailed, match=r"(?s)the worker ended \(status 3\).*what went wrong"):
        fails.check()


def test_kill_takes_the_whole_group(tmp_path: Path) -> None:
    spawns = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(p.pid, flush=True)\n"
        "time.sleep(600)"
    )
    parent = child(tmp_path, "parent", spawns)
    grandchild = int(parent.log.read_text())
    assert alive(grandchild)
    parent.kill()
    assert ended(grandchild)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_children_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib\n"
        "from sequitur.demo.processes import Child\n"
        f"c = Child('c', [sys.executable, '-c', {STUBBORN + '; time.sleep(600)'!r}],"
        f" pathlib.Path({str(tmp_path / 'c.log')!r}))\n"
        "print(c.pid, flush=True)\n"
        "time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    deadline = time.monotonic() + 240
    while "up" not in (tmp_path / "c.log").read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert ended(pid)


def ended(pid: int) -> bool:
    """Wait for the end of a process that is nobody's child here; a zombie has ended too."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False
