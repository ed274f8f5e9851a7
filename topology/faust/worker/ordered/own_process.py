"""A worker's own process, in which a plain handler runs that can be killed."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import orjson

from topology.handler_process import LARGEST, LENGTH, effects_of, encode_job, framed
from topology.model.errors import HandlerError
from topology.model.event import Event
from topology.model.printable import printable

START = 120.0
"""Seconds that a process may take to import the topology."""
DEATH = 2.0
"""Seconds that the end of a killed process is waited for."""
STARTS = 4
"""Times that a process is started which is killed before it is ready."""


class ProcessNotStarted(OSError):
    """No process of a handler could be started: it is no event's doing, and tried again."""


class ProcessDied(RuntimeError):
    """The process of a handler ended while it handled an event."""


class HandlerFailed(RuntimeError):
    """A handler raised something in its process; the text says what."""


class OwnProcess:
    """One process, which handles one job at a time; `started` makes it."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._broken = self._killed = False

    @classmethod
    async def started(cls, home: str, view: str) -> "OwnProcess":
        """A process that has imported its view. Raises ProcessNotStarted."""
        for _ in range(STARTS):
            try:
                made = await cls._launched(home, view)
            except OSError as why:
                raise ProcessNotStarted(f"view {view}: no process for it: {why}") from why
            try:
                async with asyncio.timeout(START):
                    answer = await made._answer()
            except TimeoutError:
                made.kill()
                raise ProcessNotStarted(
                    f"view {view}: its process was not ready after {START:.0f} s; see what "
                    f"importing {home} waits for"
                ) from None
            except ProcessDied:
                continue
            except BaseException:
                made.kill()
                await made.ended()
                raise
            if "ready" in answer:
                return made
            made.kill()
            await made.ended()
            error = ProcessNotStarted(
                f"view {view}: its process could not import {home}: "
                f"{printable(answer.get('failed'), 1000)}"
            )
            error.add_note(str(answer.get("traceback")))
            raise error
        raise ProcessNotStarted(f"view {view}: {STARTS} processes ended before they were ready")

    @classmethod
    async def _launched(cls, home: str, view: str) -> "OwnProcess":
        ours, theirs = socket.socketpair()
        number = str(theirs.fileno())
        path = os.pathsep.join(each or os.getcwd() for each in sys.path)
        with theirs:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-m", "topology.handler_process", number, home, view],
                    env={**os.environ, "PYTHONPATH": path},
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,  # what the handler starts is killed with it
                )
            except OSError:
                ours.close()
                raise
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        return cls(process, reader, writer)

    @property
    def alive(self) -> bool:
        """Whether it can take a job."""
        return not self._broken and not self._reader.at_eof() and self._process.poll() is None

    async def handle(
        self, number: int, events: Sequence[Event], states: dict[str, Any]
    ) -> list[list[Any]]:
        """What the handler yields for each event; it may change the states.

        number: of the grant. If this is cancelled, the process is killed, and has ended.

        Raises:
            HandlerError: what it yields is wrong.
            HandlerFailed: it raised something else.
            ProcessDied: the process has ended.
        """
        try:
            body = encode_job(number, events, states)
            self._writer.write(framed(body))
            answer = await self._answer()
        except BaseException:
            self.kill()
            await self.ended()
            raise
        if "error" in answer:
            kind = HandlerError if answer["sure"] else HandlerFailed
            error = kind(answer["error"])
            error.add_note(f"In the process of the handler:\n{answer['traceback']}")
            raise error
        states.update(answer["states"])
        return effects_of(events, answer["items"])

    async def _answer(self) -> dict[str, Any]:
        try:
            (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
            if length > LARGEST:
                raise ProcessDied(f"the handler's process answered with {length} bytes")
            answer: dict[str, Any] = orjson.loads(await self._reader.readexactly(length))
            return answer
        except (asyncio.IncompleteReadError, ConnectionError):
            self._broken = True
            await self.ended()
            raise ProcessDied(self._how_it_ended()) from None

    def _how_it_ended(self) -> str:
        status = self._process.poll()
        if status is None:
            return "the handler's process closed its connection to the worker; leave it open"
        if status >= 0:
            return f"the handler ended its process, with exit status {status}"
        name = signal.Signals(-status).name
        hint = "; the system does that where memory runs out" if status == -signal.SIGKILL else ""
        return f"the handler's process was killed by {name}{hint}"

    def hurry(self, number: int) -> None:
        """Tell the handler that later events wait for the job of this number."""
        if self.alive:
            self._writer.write(framed(LENGTH.pack(number & 0xFFFFFFFF)))

    def kill(self) -> None:
        """End it now, whatever it does, and what it has started."""
        self._broken = True
        if not self._killed:
            # Also where it has ended by itself: what it has started has not.
            self._killed = True
            self._process.poll()
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._writer.close()

    async def ended(self) -> None:
        """Wait until it, once killed, can do nothing more, and take its status."""
        until = asyncio.get_running_loop().time() + DEATH
        while self._process.poll() is None and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.001)
