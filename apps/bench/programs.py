"""Run the programs that are measured, and see what they use."""

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sequitur.demo.processes import Child
from sequitur.local.home import ROOT

_TICKS = os.sysconf("SC_CLK_TCK")
_STOP = 20.0
"""Seconds that a program may take to end in order."""


class Program(Child):
    """A child process; `pid` is that of the program itself."""

    @property
    def cpu(self) -> float:
        """CPU seconds used so far, all threads; 0 where the system does not tell or it is gone."""
        return _cpu(self.pid)

    @property
    def cpu_below(self) -> float:
        """CPU seconds used so far by its child processes, and by theirs."""
        return sum(map(_cpu, _below(self.pid)))

    def memory(self) -> tuple[float, float]:
        """(resident memory now, at its peak) in MB of 10^6 bytes; 0 where the system is silent."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:
            return 0.0, 0.0
        kilobytes = {name: int(rest.split()[0]) for name, rest in _sizes(lines)}
        return kilobytes.get("VmRSS", 0) * 1024 / 1e6, kilobytes.get("VmHWM", 0) * 1024 / 1e6

    def stop(self) -> None:
        """End it in order; what does not end in time is killed."""
        self.terminate()
        self.ended(time.monotonic() + _STOP)
        self.kill()


def start(name: str, command: Sequence[str], log: Path, env: Mapping[str, str]) -> Program:
    """Start a program in the checkout, its words going to `log`. It ends with this process."""
    log.parent.mkdir(parents=True, exist_ok=True)
    return Program(name, command, log, {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'apps'}", **env})


def worker(module: str, level: str = "warn") -> list[str]:
    """The command of a Faust worker. level: of its log."""
    command = [sys.executable, "-m", "faust", "-A", module, "worker", "-l", level, "--without-web"]
    return command


def emptied(folder: Path) -> Path:
    """The folder, without what was in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _cpu(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _below(process: int) -> Iterator[int]:
    """The children of a process, and theirs."""
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, task.read_text().split()):
                yield child
                yield from _below(child)


def _sizes(lines: Sequence[str]) -> list[tuple[str, str]]:
    named = (line.split(":", 1) for line in lines if line.endswith(" kB"))
    return [(name, rest) for name, rest in named]
