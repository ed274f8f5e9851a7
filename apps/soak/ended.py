"""Wait for processes, and say where all their threads were if they do not end.

SIGABRT has a process write that where PYTHONFAULTHANDLER is set, as for all that tests start.
"""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sequitur.local.process import tail

LINES = 150
DUMP_SECONDS = 15.0


def ended(process: subprocess.Popen[Any], seconds: float, *logs: Path) -> int:
    """Wait for a process's end and return its exit status.

    Raises RuntimeError with the ends of `logs`, one of which has what it wrote to standard error
    and so has the stacks of its threads, after `seconds`; it is killed then.
    """
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        said = stacks(process, *logs)
        raise RuntimeError(f"{process.args!r} did not end in {seconds} s{said}") from None


def stacks(process: subprocess.Popen[Any] | None, *logs: Path) -> str:
    """Have a process write the stacks of its threads and end; return the ends of its logs."""
    if process is not None:
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGABRT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(DUMP_SECONDS)
        process.kill()
        process.wait()
    return "".join(f"\nthe end of {log}:\n{tail(log, LINES)}" for log in logs)


def run(
    command: Sequence[str],
    seconds: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command; return its status and what it wrote. Raises RuntimeError as `ended` does."""
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(DUMP_SECONDS)
            process.kill()
            out, err = process.communicate()
            raise RuntimeError(f"{command} did not end in {seconds} s\n{out}\n{err}") from None
    return subprocess.CompletedProcess(command, process.returncode, out, err)
