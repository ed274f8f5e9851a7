"""Runs a command that only reads in the console's own process, which saves the start of Python."""

import asyncio
import io
import logging
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TextIO

from sequitur.cli.main import main
from sequitur.cli.outcome import without_given
from sequitur.console.run_command import BYTES, Answer
from topology.model.errors import described

_heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)
"""What the command of this thread has said, None where none runs."""
_threads = ThreadPoolExecutor(4, "look")


class _Output(io.TextIOBase):
    """A standard stream: what a command says is kept, everything else goes on."""

    def __init__(self, real: TextIO) -> None:
        self._real = real

    def write(self, text: str) -> int:
        kept = _heard.get()
        if kept is None:
            return self._real.write(text)
        if sum(map(len, kept)) < BYTES:
            kept.append(text)
        return len(text)

    def flush(self) -> None:
        self._real.flush()


class _Errors(logging.Handler):
    """Keeps why a command could not do it."""

    def emit(self, record: logging.LogRecord) -> None:
        if (kept := _heard.get()) is not None:
            # A command that has a process of its own has a log that hides them.
            kept.append(f"{without_given(record.getMessage())}\n")


def begin() -> None:
    """Have what commands say kept, from now on; what else is said goes where it went."""
    sys.stdout, sys.stderr = _Output(sys.stdout), _Output(sys.stderr)
    root = logging.getLogger()
    for each in root.handlers:
        each.addFilter(lambda record: _heard.get() is None)
    root.addHandler(_Errors(logging.ERROR))


async def look_command(words: Sequence[str]) -> Answer:
    """Run a command of `sequitur` that reads, and ends by itself.

    Args:
        words: without `sequitur`.
    """
    return await asyncio.get_running_loop().run_in_executor(_threads, _run, words)


def _run(words: Sequence[str]) -> Answer:
    kept = list[str]()
    token = _heard.set(kept)
    try:
        status = main([*words])
    except Exception as error:
        status = 2
        kept.append(without_given(described(error)))
    finally:
        _heard.reset(token)
    return Answer(status, "".join(kept).strip("\n"))
