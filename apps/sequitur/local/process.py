"""Start processes that end with this one, and tell whether a process is what we think it is."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

# Linux sends the signal when the *thread* that started the child ends, so one thread that lasts as
# long as the interpreter starts them all. It is set in the child's own first step, since nothing
# but exec is safe between the fork and the exec of a process with threads.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="process-starter")
_DIE_WITH_PARENT = """\
import ctypes, os, signal, subprocess, sys
parent, user, group, command = *map(int, sys.argv[1:4]), sys.argv[4:]
if user:  # first, since it takes back the next line
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
if os.getppid() != parent:
    sys.exit("the parent is gone")
"""
_BE_THE_COMMAND = _DIE_WITH_PARENT + "os.execvp(command[0], command)"
_RUN_THE_COMMAND = (
    _DIE_WITH_PARENT
    + """\
signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
sys.exit(subprocess.call(command))
"""
)


def spawn(
    command: Sequence[str],
    *,
    output: IO[bytes] | int | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    descendants: bool = False,
    user: tuple[int, int] = (0, 0),
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own, so that Ctrl-C reaches this process only.

    output: where standard output and error go. descendants: SIGTERM kills it with all that it has
    started in turn, instead of letting it end in order. user: the user id and group id that root
    starts it as, instead of as itself. On Linux it gets SIGTERM when this process
    ends, in whatever way; elsewhere it has to be stopped.
    """
    wrapper = _RUN_THE_COMMAND if descendants else _BE_THE_COMMAND
    return _starter.submit(
        subprocess.Popen,
        [sys.executable, "-ISc", wrapper, *map(str, (os.getpid(), *user)), *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output is not None else None,
        env=None if env is None else dict(env),
        cwd=cwd,
        start_new_session=True,
    ).result()


def command_of(pid: int) -> str:
    """Return the command line of process `pid`, or an empty string where there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        pass
    if Path("/proc/self/cmdline").exists():
        return ""
    shown = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return shown.stdout.strip()


def tail(path: Path, lines: int = 15) -> str:
    """Return the last lines of a log file, indented, or a note that there are none."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        text = ""
    last = text.rstrip().splitlines()[-lines:]
    return "\n".join(f"    {line}" for line in last) or "    (the log is empty)"
