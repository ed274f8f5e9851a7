"""A Kafka broker of one's own: a single KRaft node in a folder, reachable from this machine only.

`sequitur broker` runs one.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from sequitur.local.broker_config import check_folder, configure, is_broker_of
from sequitur.local.home import LocalError, lock
from sequitur.local.kafka_probe import answers
from sequitur.local.ports import HOST, free_port, reason_not_to_listen
from sequitur.local.process import command_of, spawn, tail


class Broker:
    """A broker whose records, settings and log lie in `data`; a later start finds the records.

    port: where it listens, or None for a free one, which it keeps over restarts.
    settings: broker properties besides or instead of those of `broker_config`. heap: of the JVM.
    Usable as a context manager. On Linux the broker ends with the process that started it, however
    that ends; what an earlier process left running in the folder is ended by `start`.
    """

    def __init__(
        self,
        data: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        heap: str = "512m",
    ) -> None:
        self.data = data.absolute()
        self.port = port or free_port()
        self.log = self.data / "broker.log"
        self._pid_file = self.data / "pid"
        self._settings = dict(settings or {})
        self._heap = heap
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    @property
    def address(self) -> str:
        """`host:port` for clients."""
        return f"{HOST}:{self.port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None and self.running else None

    def start(self, timeout: float = 90.0, check: Callable[[], None] = lambda: None) -> "Broker":
        """Start it and wait, at most `timeout` seconds, until it answers. Does nothing twice.

        check: called while it waits; what it raises ends the broker.

        Raises LocalError when the folder or the port is taken, or the broker does not come up.
        """
        if self.running:
            return self
        check_folder(self.data)
        self.data.mkdir(parents=True, exist_ok=True)
        self._own_the_folder()
        try:
            self._end_leftover()
            if reason := reason_not_to_listen(self.port):
                raise LocalError(
                    f"Kafka broker at {self.address}",
                    f"the port is not free ({reason})",
                    "stop what listens there, or choose another port",
                )
            command = configure(self.data, self.port, self._settings, self._heap)
            with self.log.open("ab") as output:
                self._process = spawn(command, output=output)
            self._pid_file.write_text(str(self._process.pid))
            self._wait_for_answer(timeout, check)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, timeout: float = 30.0) -> None:
        """Shut it down in order; kill it if that takes longer than `timeout` seconds."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._clear()

    def kill(self) -> None:
        """End it at once (SIGKILL). The records that it acknowledged stay in the folder."""
        if self._process is not None:
            self._process.kill()
        self._clear()

    def restart(self) -> "Broker":
        """Stop it if it runs, and start it again on the same port with the same records."""
        self.stop()
        return self.start()

    def __enter__(self) -> "Broker":
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _own_the_folder(self) -> None:
        if self._lock is None:
            self._lock = lock(self.data / "lock", wait=False)
        if self._lock is None:
            raise LocalError(
                f"Kafka broker in {self.data}",
                "another process is running a broker there",
                "stop that process, or choose another folder",
            )

    def _end_leftover(self) -> None:
        """End the broker of an earlier run whose owner was killed; it would hold Kafka's lock."""
        try:
            pid = int(self._pid_file.read_text())
        except (OSError, ValueError):
            return
        for sent in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 20
            while is_broker_of(self.data, command_of(pid)) and time.monotonic() < deadline:
                with suppress(ProcessLookupError):
                    os.kill(pid, sent)
                time.sleep(0.2)
        self._pid_file.unlink(missing_ok=True)

    def _wait_for_answer(self, timeout: float, check: Callable[[], None]) -> None:
        deadline = time.monotonic() + timeout
        while not answers(HOST, self.port):
            check()
            if not self.running:
                reason = "it ended while starting"
            elif time.monotonic() > deadline:
                reason = f"no answer within {timeout:.0f} s"
            else:
                time.sleep(0.1)
                continue
            raise LocalError(
                f"Kafka broker at {self.address}",
                f"{reason}; the end of {self.log}:\n{tail(self.log)}",
                f"read the log; where its records are of no use any more, delete {self.data}",
            )

    def _clear(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None
            self._pid_file.unlink(missing_ok=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
