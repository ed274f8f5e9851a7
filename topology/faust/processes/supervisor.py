"""Starts the workers of one app, starts again what dies, and ends all of them together."""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from signal import Signals

from topology.faust.processes.numbered import NumberedWorker
from topology.faust.processes.pages import AllPages
from topology.faust.processes.restarts import Restarts

logger = logging.getLogger(__name__)

LAST = 60.0
"""Seconds that workers have to end; what is left then is killed."""
KILLED = 10.0
"""Seconds that what is killed has to be gone."""
ENDED = 0.05
"""Seconds between two looks whether a worker has ended."""
CHUNK = 1 << 16
LONGEST = 1 << 20
"""Bytes of a line of a worker's output; a longer one is written as several."""
DONE, CANNOT = 0, 2


class WorkerProcess:
    """One worker: its number and socket stay, its process may be a new one.

    Args:
        number: its own, from 1 on.
        listens: whether it has pages.
    """

    def __init__(self, number: int, *, listens: bool) -> None:
        self.number = number
        self.restarts = Restarts()
        self.starts = 0
        self.process: asyncio.subprocess.Process | None = None
        """The one that runs."""
        # It is the supervisor's, so that a worker that is started again listens where it did.
        self._listener = socket.create_server(("127.0.0.1", 0)) if listens else None

    @property
    def port(self) -> int:
        """Where it answers the supervisor."""
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    async def start(self, command: Sequence[str]) -> asyncio.subprocess.Process:
        """Start it.

        Args:
            command: what starts a worker.

        Raises:
            OSError: the system has no room for a process.
        """
        handed = () if self._listener is None else (self._listener.fileno(),)
        told = NumberedWorker(self.number, os.getpid(), *handed)
        self.starts += 1
        self.process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **told.environment},
            pass_fds=handed,
            start_new_session=True,  # Ctrl-C reaches the supervisor only
        )
        return self.process

    def signal(self, number: Signals) -> None:
        """Send it a signal, if it runs."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)


class Supervisor:
    """Runs until it is told to end, or a worker dies too often.

    Args:
        command: starts a worker; what the worker is told besides is in its environment.
        count: how many workers.
        address: where all of them are seen at /metrics, /health and /ready; None for nowhere.
    """

    def __init__(self, command: Sequence[str], count: int, address: str | None = None) -> None:
        self._command = command
        self._address = address
        self._ending = asyncio.Event()
        self.workers = [
            WorkerProcess(number, listens=address is not None) for number in range(1, count + 1)
        ]

    async def run(self) -> int:
        """Run them; the exit status: 2 where not all of them ended in order.

        Raises:
            OSError: it cannot listen at the address.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ending.set)
        async with AllPages(self.workers).at(self._address):
            told = asyncio.create_task(self._ending.wait())
            keeping = [asyncio.create_task(self._keep(worker)) for worker in self.workers]
            await asyncio.wait([told, *keeping], return_when=asyncio.FIRST_COMPLETED)
            self._ending.set()
            self._signal(signal.SIGTERM)
            _, late = await asyncio.wait(keeping, timeout=LAST)
            if late:
                logger.error(
                    "%d workers have not ended after %.0f s: killing them", len(late), LAST
                )
                self._signal(signal.SIGKILL)
                _, late = await asyncio.wait(keeping, timeout=KILLED)
                if late:  # the system cannot end what waits for a disk that hangs
                    logger.critical("%d workers cannot be killed, and are left behind", len(late))
                    return CANNOT
            in_order = await asyncio.gather(*keeping)
        return DONE if all(in_order) else CANNOT

    def _signal(self, number: Signals) -> None:
        for worker in self.workers:
            worker.signal(number)

    async def _keep(self, worker: WorkerProcess) -> bool:
        """Start it whenever it does not run, until the end; whether it has ended in order."""
        while not self._ending.is_set():
            began = time.monotonic()
            status = await self._run(worker)
            lived = time.monotonic() - began
            if self._ending.is_set():
                # SIGTERM itself ends only what had not begun to work.
                return status in (0, -signal.SIGTERM)
            how = f"worker {worker.number} {_ended(status)} after {lived:.0f} s"
            pause = worker.restarts.after(lived)
            if pause is None:
                logger.critical(
                    "%s, for the %dth time in a row: all workers end. Its lines above say why",
                    how, worker.restarts.in_a_row,
                )  # fmt: skip
                return False
            logger.error("%s; it is started again in %.0f s", how, pause)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), pause)
        return True

    async def _run(self, worker: WorkerProcess) -> int | None:
        """Run it once; its status, None where there is no process."""
        try:
            process = await worker.start(self._command)
        except OSError:
            logger.exception("worker %d cannot be started", worker.number)
            return None
        logger.info("worker %d is process %d", worker.number, process.pid)
        if self._ending.is_set():
            worker.signal(signal.SIGTERM)
        copying = asyncio.create_task(_copy(process.stdout, f"worker-{worker.number} | "))
        # Not wait(): before Python 3.12 it waits for whoever has the output open, too.
        while (status := process.returncode) is None:
            await asyncio.sleep(ENDED)
        worker.process = None
        # What the worker has started may outlive it for a moment, and has its output open.
        await asyncio.wait({copying}, timeout=1)
        copying.cancel()
        # There is no other way to close its output, which who outlives it would fill.
        process._transport.close()  # type: ignore[attr-defined]
        return status


def _ended(status: int | None) -> str:
    if status is None:
        return "could not be started"
    if status >= 0:
        return f"ended with status {status}"
    hint = "; the system does that where memory runs out" if status == -signal.SIGKILL else ""
    return f"was killed by {Signals(-status).name}{hint}"


async def _copy(source: asyncio.StreamReader | None, prefix: str) -> None:
    """Write each line to standard error with a prefix, those that come together together."""
    assert source is not None
    mark, rest = prefix.encode(), b""
    while chunk := await source.read(CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST:
            lines, rest = [*lines, rest], b""
        _write(b"".join(b"%s%s\n" % (mark, line) for line in lines))
    if rest:
        _write(b"%s%s\n" % (mark, rest))


def _write(lines: bytes) -> None:
    with suppress(OSError):  # nobody reads it any more
        sys.stderr.buffer.write(lines)
        sys.stderr.buffer.flush()
