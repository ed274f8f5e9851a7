import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sequitur.local.process import command_of, spawn, tail

_PARENT = """\
import sys, time
from threading import Thread
from sequitur.local.process import spawn
started = []
descendants = sys.argv[1] == "descendants"
command = ["sh", "-c", "sleep 600; true"] if descendants else ["sleep", "600"]
thread = Thread(target=lambda: started.append(spawn(command, descendants=descendants)))
thread.start()
thread.join()
time.sleep(0.5)  # the thread that asked is gone by now, and the child must not mind
print(started[0].pid, flush=True)
time.sleep(600)
"""


def _of_session(session: int) -> list[str]:
    """The command lines of the session's processes."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(process.name)) == session:
                found.append(command_of(int(process.name)))
        except ProcessLookupError:
            continue
    return [command for command in found if command]  # without zombies


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
@pytest.mark.parametrize(("mode", "count"), [("alone", 1), ("descendants", 3)])
def test_a_process_ends_with_its_parent_but_not_with_the_thread_that_asked_for_it(
    mode: str, count: int
) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, mode], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        session = int(parent.stdout.readline())
    deadline = time.monotonic() + 240
    while len(_of_session(session)) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(_of_session(session)) == count
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 240
    while left := _of_session(session):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_output_environment_and_folder_are_as_asked(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = spawn(
            ["sh", "-c", "echo $A $PWD; echo error >&2"],
            output=output,
            env={"A": "x", "PATH": os.environ["PATH"]},
            cwd=tmp_path,
        )
    assert process.wait() == 0
    assert log.read_text() == f"x {tmp_path}\nerror\n"


def test_ctrl_c_reaches_the_parent_only(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        spawn([sys.executable, "-c", "import os; print(os.getsid(0))"], output=output).wait()
    assert int(log.read_text()) != os.getsid(0)


def test_a_command_that_does_not_exist_fails() -> None:
    with open(os.devnull, "wb") as output:
        try:
            status = spawn(["no-such-command"], output=output).wait()
        except FileNotFoundError:
            return
    assert status != 0


def test_tail_shows_the_last_lines_and_bears_a_missing_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert "empty" in tail(log)
    log.write_text("\n".join(map(str, range(100))) + "\n\n")
    assert tail(log, lines=2) == "    98\n    99"
