"""A server of one's own in a temporary folder: how it ends, whatever it is."""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from sequitur.local.home import LocalError
from sequitur.local.process import spawn, tail


class LocalServer:
    """Subclasses start it. name: as its folder and log are called; the folder goes with `close`.

    Usable as a context manager. On Linux the server ends with the process that started it.
    """

    title: str
    remedy = "run scripts/setup"
    """What it is called where it does not start, and what helps then."""
    stops_by = signal.SIGTERM
    """What tells it to shut down in order."""
    patience = 30.0
    """Seconds that this may take before it is killed."""

    def __init__(self, name: str) -> None:
        # Not within the checkout: the path of a socket has to be short.
        self.folder = Path(tempfile.mkdtemp(prefix=f"sequitur-{name}-"))
        self.log = self.folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of its first process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def start(self, timeout: float = 120.0) -> Self:
        """Start it, with what it held before, and wait until it answers. Raises LocalError."""
        raise NotImplementedError

    def _launch(
        self, command: Sequence[str], answers: Callable[[], bool], timeout: float, **how: Any
    ) -> Self:
        """Start a command, and wait until it answers. how: of `spawn`. Raises LocalError."""
        with self.log.open("ab") as output:
            self._process = spawn(command, output=output, **how)
        deadline = time.monotonic() + timeout
        while not answers():
            ended = self._process.poll()
            if ended is not None or time.monotonic() > deadline:
                self.kill()
                reason = "no answer in time" if ended is None else f"it ended with {ended}"
                raise self._error(f"{reason}; the end of its log:\n{tail(self.log)}")
            time.sleep(0.02)
        return self

    def _error(self, reason: str) -> LocalError:
        return LocalError(self.title, reason, self.remedy)

    def stop(self) -> None:
        """Shut it down in order, whoever is still connected; what it holds is kept."""
        if self._process is not None:
            self._process.send_signal(self.stops_by)
            try:
                self._process.wait(self.patience)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process = None

    def kill(self) -> None:
        """End it at once (SIGKILL). Its own processes notice, and end as well."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def close(self) -> None:
        """End it and delete its folder."""
        self.kill()  # what it has not written out need not be
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()
