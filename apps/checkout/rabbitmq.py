"""A RabbitMQ of one's own, from a server that is installed, with streams; for tests and benchmarks.

It listens on this machine only, and everything that it writes is in its own temporary folder.
"""

import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Self

from checkout.console import say
from checkout.server import LocalServer
from sequitur.local.ports import HOST, free_port

PACKAGE = "rabbitmq-server"
_DEBIAN = Path("/usr/lib/rabbitmq/bin", PACKAGE)
"""The server's own script; what Debian has on the PATH starts it as another user."""


class RabbitMQ(LocalServer):
    """A server whose folder is deleted with `close`."""

    title, remedy = "RabbitMQ", f"install the package {PACKAGE}"

    def __init__(self) -> None:
        super().__init__("rabbitmq")
        self.port, self.stream_port, self._nodes, self._names = (free_port() for _ in range(4))
        self._epmd: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For clients; of a user that may do anything."""
        return f"amqp://guest:guest@{HOST}:{self.port}/"

    def start(self, timeout: float = 120.0) -> Self:
        if self.running:
            return self
        script, names = server_file(), shutil.which("epmd")
        if script is None or names is None:
            raise self._error("no rabbitmq-server")
        (self.folder / "plugins").write_text("[rabbitmq_stream].\n")
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {HOST}:{self.port}\n"
            f"stream.listeners.tcp.1 = {HOST}:{self.stream_port}\n"
            f"stream.advertised_host = {HOST}\n"
            f"stream.advertised_port = {self.stream_port}\n"
            # Whatever else the machine does with its memory and its disk.
            "vm_memory_high_watermark.relative = 0.9\ndisk_free_limit.absolute = 1MB\n"
        )
        env = {
            **os.environ,
            "HOME": str(self.folder),
            "RUNNING_UNDER_SYSTEMD": "true",  # the process that is started is the server
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_NODENAME": f"{self.folder.name}@localhost",
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_DIST_PORT": str(self._nodes),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1 -kernel inet_dist_use_interface "
            "{127,0,0,1}",
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": HOST,
        }
        if self._epmd is None:
            self._launch([names], lambda: _answers(self._names), timeout, env=env)
            self._epmd, self._process = self._process, None
        ports = self.port, self.stream_port
        command, up = [str(script)], lambda: all(map(_answers, ports))
        return self._launch(command, up, timeout, env=env, cwd=self.folder)

    def close(self) -> None:
        self.kill()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()
        super().close()


def server_file() -> Path | None:
    """The server's script, or None."""
    if _DEBIAN.exists():
        return _DEBIAN
    found = shutil.which(PACKAGE)
    return None if found is None else Path(found)


def missing() -> str | None:
    """Why RabbitMQ is not tested, or None."""
    if server_file() is not None:
        return None
    return f"RabbitMQ is not tested: no {PACKAGE} on this machine; install the package of that name"


def install() -> None:
    """Install a server where that is allowed: as root, with apt."""
    apt = shutil.which("apt-get")
    if server_file() is None and os.geteuid() == 0 and apt is not None:
        say(f"Installing {PACKAGE}, which the tests of RabbitMQ need")
        # The package's own service is not to be started.
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        command = [apt, "install", "-y", "-q", "--no-install-recommends", PACKAGE]
        subprocess.run(command, env=env, check=False, stdout=subprocess.DEVNULL)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), 1):
            return True
    except OSError:
        return False
