"""The demo's child processes: each in a group of its own, with its log in a file."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sequitur.local.process import spawn, tail

# `spawn` has a child get SIGTERM when the demo is killed. With the broker gone at the same moment a
# client may take for ever to end in order, so here it is SIGKILL.
_KILLED_WITH_PARENT = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class ChildFailed(RuntimeError):
    """A child ended although it was needed; the text names it and shows the end of its log."""


class Child:
    """A process started by the demo. `name` is for messages; `log` takes all that it writes."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        if sys.platform == "linux":
            command = [sys.executable, "-ISc", _KILLED_WITH_PARENT, *command]
        with log.open("ab") as output:
            self._process = spawn(command, output=output, env={**os.environ, **(env or {})})

    @property
    def pid(self) -> int:
        """The process id, which is the id of its group as well."""
        return self._process.pid

    def check(self) -> None:
        """Raise ChildFailed if the process has ended."""
        status = self._process.poll()
        if status is not None:
            raise ChildFailed(
                f"the {self.name} ended (status {status}); the end of {self.log}:\n"
                f"{tail(self.log, 25)}"
            )

    def terminate(self) -> None:
        """Ask the process to end (SIGTERM); it takes care of those that it started."""
        self._process.terminate()

    def kill(self) -> None:
        """End it and whatever is left of its group at once (SIGKILL)."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def ended(self, deadline: float) -> bool:
        """Wait for its end, at most until `deadline` (time.monotonic); return whether it came."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        return self._process.poll() is not None


def stop_all(children: Iterable[Child], seconds: float = 15.0) -> list[str]:
    """Stop children together: SIGTERM, then SIGKILL for what is left after `seconds`.

    Returns the names of those that had to be killed.
    """
    every = list(children)
    for child in every:
        child.terminate()
    deadline = time.monotonic() + seconds
    killed = [child.name for child in every if not child.ended(deadline)]
    for child in every:
        child.kill()
    return killed
