"""Processes that are forks of one that has imported already what tests start again and again.

The interpreter's start and the imports are most of what a command takes.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import IO, Any, cast

from faust.cli.base import _Group

# Not forks of this process, which may have threads. There is one such server for all contexts.
context = multiprocessing.get_context("forkserver")
PRELOADED = [
    "faust.cli.faust",
    "topology.faust",
    "topology.faust.worker.ordered.ordered_partition",
    "topology.faust.worker.queries",
    "topology.faust.worker.watch.worker_pages",
    "topology.routing",
    "topology.verbs",
    "stores.inbox",
    "stores.replay",
    "stores.segments",
    "stores.sinks.sql.sink",
    "stores.view_state.rocksdb",
    "soak_capture.producer",
    "soak_segments.part",
    # What the modules of tests have imported whose functions are run.
    "hypothesis.strategies",
    "pytest",
]


def preload() -> None:
    """Let the server import this, whatever others have asked it for: it heeds the last one."""
    context.set_forkserver_preload(PRELOADED)


preload()


class ForkedWorker:
    """`python -m` with these words, running for long: the part of `Popen` that tests use.

    A fork ends as a process of its own does, but for what the interpreter does at its very end.
    `scripts/soak`, the demo and the wheel start workers as users do.
    """

    def __init__(self, words: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self.args = list(words)
        log.touch()
        self._process = context.Process(target=_be, args=(self.args, dict(env), [log, log]))
        self._process.start()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (status := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def spawned(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, output: IO[bytes] | None = None
) -> "subprocess.Popen[bytes]":
    """A ForkedWorker in the place of what `sequitur.local.process.spawn` starts: `python -m` words.

    output: a file that is open, to which it appends.
    """
    assert command[:2] == [sys.executable, "-m"], command
    log = Path(os.devnull if output is None else output.name)
    worker = ForkedWorker(command[2:], os.environ if env is None else env, log)
    return cast("subprocess.Popen[bytes]", worker)


class Forked:
    """`python -m` with these words, running."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str]) -> None:
        self.words = list(words)
        self._folder = tempfile.TemporaryDirectory(prefix="sequitur-forked-")
        self._files = [Path(self._folder.name, name) for name in ("out", "err")]
        self._process = context.Process(target=_be, args=(self.words, dict(env), self._files))
        self._process.start()

    def ended(self, seconds: float) -> subprocess.CompletedProcess[str]:
        """Its status and what it wrote. Raises RuntimeError with its stacks after `seconds`."""
        self._process.join(seconds)
        status = self._process.exitcode
        if status is None:
            assert self._process.pid is not None
            os.kill(self._process.pid, signal.SIGABRT)
            self._process.join(15)
            self._process.kill()
        out, err = (file.read_text() if file.exists() else "" for file in self._files)
        self._folder.cleanup()
        if status is None:
            raise RuntimeError(f"{self.words} did not end in {seconds} s\n{out}\n{err}")
        return subprocess.CompletedProcess(self.words, status, out, err)


def end_with_tests() -> None:
    """Have this process end with the one whose tests started it, in whatever way that ends.

    The server of forks does not: it lives as long as one of its forks.
    """
    tests = multiprocessing.parent_process()
    assert tests is not None

    def watch() -> None:
        tests.join()
        os.kill(os.getpid(), signal.SIGKILL)

    Thread(target=watch, name="end with tests", daemon=True).start()


def _be(words: list[str], env: dict[str, str], files: list[Path]) -> None:
    end_with_tests()
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = env["PYTHONPATH"].split(os.pathsep)
    for stream, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND), stream)
    # Faust has kept the list of when it was imported.
    asked: Any = _Group._maybe_import_app
    sys.argv = asked.__defaults__[0]
    sys.argv[:] = words
    runpy.run_module(_module(words[0]), run_name="__main__", alter_sys=True)


def _module(name: str) -> str:
    """What `python -m` runs: of a package its `__main__`."""
    try:
        spec = find_spec(name)
    except ValueError:  # Faust's package has taken it away from itself
        return f"{name}.__main__"
    return name if spec and spec.submodule_search_locations is None else f"{name}.__main__"
