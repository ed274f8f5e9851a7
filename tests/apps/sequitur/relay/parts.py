"""What the tests of the relay share: servers and relays that end with a block, and patience."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from sequitur.local.ports import HOST, free_port
from sequitur.relay.relay import Relay

TOKEN = "a-token-for-tests-0123456789"


@asynccontextmanager
async def serving(app: web.Application, port: int | None = None) -> AsyncIterator[str]:
    """The URL of an application that is served."""
    runner, port = web.AppRunner(app, access_log=None), port or free_port()
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    try:
        yield f"http://{HOST}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running(relay: Relay) -> AsyncIterator[Relay]:
    """A relay at work."""
    stopped = asyncio.Event()
    task = asyncio.create_task(relay.run(stopped))
    try:
        yield relay
    finally:
        stopped.set()
        await task


async def until(condition: Callable[[], bool], seconds: float = 180) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)
