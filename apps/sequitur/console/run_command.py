"""Runs a command beside the console, as a person would type it, and takes what it says."""

import asyncio
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stores.user import user_name
from topology.faust.operation.command_sender import acting

SECONDS = 120.0
"""That a command that only looks may take."""
BYTES = 8 << 20
"""Of an answer; what comes behind is dropped."""
_AT_ONCE = asyncio.Semaphore(2)
_HEAD = re.compile(r"^\S+ \S+ [A-Z]+ [\w.]+: ")
"""What a logger puts before a line."""
_LAST = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said. status: 0 all is well, 1 bad news, 2 it could not be done."""

    status: int
    text: str


async def run_command(
    words: Sequence[str], stdin: bytes = b"", seconds: float | None = SECONDS
) -> Answer:
    """Run a command: two at a time of those that have a limit, others wait. It is ended when nobody
    waits for it any more.

    Args:
        words: the module and its arguments; no shell sees them.
        stdin: what it reads.
        seconds: after which it is ended; None for never.

    Raises:
        TimeoutError: it took longer.
    """
    if seconds is None:
        return await followed(words, stdin)
    async with _AT_ONCE:
        try:
            async with asyncio.timeout(seconds):
                return await followed(words, stdin)
        except TimeoutError:
            raise TimeoutError(f"the command takes longer than {seconds:g} s") from None


async def followed(
    words: Sequence[str], stdin: bytes = b"", heard: Callable[[str], None] = lambda line: None
) -> Answer:
    """Run a command however long it takes. heard: told each line of its standard error."""
    # Commands record who gave them by this variable.
    name = acting()
    environment = {**os.environ, "LOGNAME": f"{name} by {user_name()}"} if name else None
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *words), stdin=pipe, stdout=pipe, stderr=pipe, env=environment
    )
    try:
        output, errors, _ = await asyncio.gather(
            _all(process.stdout), _lines(process.stderr, heard), _give(process.stdin, stdin)
        )
        status = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Answer(status, output.strip("\n") or "\n".join(errors))


async def _all(stream: asyncio.StreamReader | None) -> str:
    found = bytearray()
    while stream is not None and (part := await stream.read(1 << 16)):
        found += part[: BYTES - len(found)]
    return found.decode("utf-8", "replace")


async def _lines(stream: asyncio.StreamReader | None, heard: Callable[[str], None]) -> list[str]:
    """The last lines, without what loggers put before them."""
    last, rest = list[str](), b""
    while stream is not None and (part := await stream.read(1 << 16)):
        *lines, rest = (rest + part).split(b"\n")
        rest = rest[-(1 << 16) :]
        for line in lines:
            text = _HEAD.sub("", line.decode("utf-8", "replace"))
            heard(text)
            last = [*last, text][-_LAST:]
    return [*last, rest.decode("utf-8", "replace")] if rest else last


async def _give(stream: asyncio.StreamWriter | None, data: bytes) -> None:
    if stream is not None:
        try:
            stream.write(data)
            await stream.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass  # it does not read it
        stream.close()
