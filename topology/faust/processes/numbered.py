"""What tells a worker that it is one of several, and which settings it has to itself then."""

import ctypes
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from stores.db.urls import read_url, without_password
from topology.faust.settings import Settings

VARIABLE = "SEQUITUR_NUMBERED"
"""The environment variable by which a supervisor tells a worker; nobody else sets it."""
SET_PDEATHSIG = 1
LAST_PORT = 65_535
_LOCAL = ("rocksdb", "files")


@dataclass(frozen=True, slots=True)
class NumberedWorker:
    """A worker that a supervisor starts.

    Attributes:
        number: its own, from 1 on; it keeps it when it is started again.
        supervisor: process id of who started it.
        listener: file descriptor of the socket where it answers the supervisor; -1 for none.
    """

    number: int
    supervisor: int
    listener: int = -1

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self | None:
        """The one that this process is; None where it has no supervisor.

        Args:
            environment: of the process.
        """
        told = environment.get(VARIABLE)
        return cls(*map(int, told.split(":"))) if told else None

    @property
    def environment(self) -> dict[str, str]:
        """What tells it."""
        return {VARIABLE: f"{self.number}:{self.supervisor}:{self.listener}"}

    def settings(self, given: Settings) -> Settings:
        """Its settings.

        Args:
            given: those of all workers together.

        Raises:
            ValueError: it cannot have them, since one is not to be counted up or read.
        """
        name = f"worker-{self.number}"
        view_state = read_url(given.view_state)
        kind, _, folder = view_state.partition(":")
        own: dict[str, str | None] = {
            "datadir": os.path.join(given.datadir, name),
            "metrics": None if self.listener < 0 else f"fd:{self.listener}",
        }
        if given.queries is not None:
            own["queries"] = queries = self._next("queries", given.queries)
            url = given.queries_url
            own["queries_url"] = (
                f"http://{queries}" if url is None else self._next("queries_url", url)
            )
        if given.instance is not None:
            own["instance"] = f"{given.instance}-{self.number}"
        if folder and kind in _LOCAL:
            own["view_state"] = f"{view_state}/{name}"
        return given.model_copy(update=own)

    def port(self, first: int) -> int:
        """Its port of Faust's web server.

        Args:
            first: that of worker 1.
        """
        return first + self.number - 1

    def _next(self, setting: str, address: str) -> str:
        host, _, port = address.rstrip("/").rpartition(":")
        numbered = host and port.isascii() and port.isdigit()
        if not numbered or self.port(int(port)) > LAST_PORT:
            raise ValueError(
                f"{setting} {without_password(address)!r} has no port at its end for worker "
                f"{self.number}: each of several workers has the next one; let it end with the "
                "port of worker 1, and no path"
            )
        return f"{host}:{self.port(int(port))}"

    def end_with_supervisor(self) -> None:
        """Have the system kill this process when its supervisor ends, in whatever way.

        On Linux only. Not SIGTERM: who does not heed that would be left over, and in the way of
        those that are started next.
        """
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self.supervisor:
            sys.exit("the supervisor is gone")
