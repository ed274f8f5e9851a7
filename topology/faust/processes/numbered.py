"""What tells a worker that it is one of several, and which settings it has to itself then."""

import ctypes
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from topology.faust.settings import Settings

VARIABLE = "SEQUITUR_NUMBERED"
"""The environment variable by which a supervisor tells a worker; nobody else sets it."""
SET_PDEATHSIG = 1
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
        """
        name = f"worker-{self.number}"
        kind, _, folder = given.view_state.partition(":")
        own: dict[str, str | None] = {
            "datadir": os.path.join(given.datadir, name),
            "metrics": None if self.listener < 0 else f"fd:{self.listener}",
        }
        if given.queries is not None:
            own["queries"] = queries = self._next(given.queries)
            url = given.queries_url
            own["queries_url"] = f"http://{queries}" if url is None else self._next(url)
        if given.instance is not None:
            own["instance"] = f"{given.instance}-{self.number}"
        if folder and kind in _LOCAL:
            own["view_state"] = f"{given.view_state}/{name}"
        return given.model_copy(update=own)

    def port(self, first: int) -> int:
        """Its port of Faust's web server.

        Args:
            first: that of worker 1.
        """
        return first + self.number - 1

    def _next(self, address: str) -> str:
        host, _, port = address.rstrip("/").rpartition(":")
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
