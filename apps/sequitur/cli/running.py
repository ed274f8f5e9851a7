"""Processes that run until SIGTERM or Ctrl-C, and end in order."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable

TOKEN = "DELIVERY_TOKEN"
"""The variable that has the token of those who may send."""
TOKEN_LENGTH = 16
"""The least that a token may have."""


def run_until_stopped(work: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    """Run `work` with an event that a signal sets; returns the exit status."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    # Its clients are told apart by what they do, and its reasons are in our own lines.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    asyncio.run(_run(work))
    return 0


async def _run(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await work(stopped)


def token() -> str:
    """The token in the environment. Raises ValueError where it is none."""
    found = os.environ.get(TOKEN, "")
    if len(found) < TOKEN_LENGTH or not found.isascii() or not found.isprintable():
        raise ValueError(
            f"set {TOKEN} to a secret of at least {TOKEN_LENGTH} ASCII characters, the same for "
            "the relay and the inbox"
        )
    return found
