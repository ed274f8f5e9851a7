"""A server of one's own in a temporary folder: how it ends, whatever it is."""

import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from sequitur.local.process import tail


class LocalServer:
    """Subclasses start it. name: as its folder and log are called; the folder goes with `close`.

    Usable as a context manager. On Linux the server ends with the process that started it.
    """

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

    def start(self, timeout: float = 60.0) -> Self:
        """Start it, with what it held before, and wait until it answers. Raises LocalError."""
        raise NotImplementedError

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

    def _told(self, reason: str) -> str:
        """A reason for a failure, with the end of the server's log."""
        return f"{reason}; the end of its log:\n{tail(self.log)}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
