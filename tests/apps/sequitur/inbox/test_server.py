"""The inbox's HTTP server has limits: of messages, of connections, of half-sent requests."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from sequitur.inbox.connections import Limits
from sequitur.inbox.server import serve
from sequitur.local.ports import HOST, free_port
from sequitur.relay.wire import decode
from stores.db.engines import open_engine
from stores.inbox.inbox import Inbox
from stores.message import Message

TOKEN = "a-token-for-tests-0123456789"


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Inbox]:
    engine = open_engine(f"sqlite:///{tmp_path}/warehouse.sqlite")
    yield Inbox(engine)
    engine.dispose()


@asynccontextmanager
async def serving(inbox: Inbox, limits: Limits) -> AsyncIterator[int]:
    stopped, port = asyncio.Event(), free_port()
    task = asyncio.create_task(serve(inbox, TOKEN, HOST, port, stopped, limits))
    try:
        while True:
            try:
                _, writer = await asyncio.open_connection(HOST, port)
                writer.close()
                break
            except OSError:
                await asyncio.sleep(0.01)
        yield port
    finally:
        stopped.set()
        await task


async def answer(port: int, request: bytes) -> bytes:
    """What comes until the server closes the connection; the request stays half-sent."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(request)
    found = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return found


async def test_half_sent_requests_do_not_stay_open(inbox: Inbox) -> None:
    head = f"POST /messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
    async with serving(inbox, Limits(idle=0.2)) as port:
        assert await answer(port, b"") == b""
        assert await answer(port, head) == b""
    async with serving(inbox, Limits(body=0.2)) as port:
        half = await answer(port, head + b'Content-Length: 100\r\n\r\n{"messages"')
        assert half.startswith(b"HTTP/1.1 408")


async def served(port: int) -> tuple[bool, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        return b"200" in await asyncio.wait_for(reader.readline(), 60), writer
    except OSError:
        return False, writer


async def test_connections_beyond_the_limit_are_closed(inbox: Inbox) -> None:
    async with serving(inbox, Limits(connections=2)) as port:
        kept: list[asyncio.StreamWriter] = []
        while len(kept) < 2:  # the one by which it was seen that it serves may be open still
            good, writer = await served(port)
            if good:
                kept.append(writer)
            else:
                writer.close()
        good, writer = await served(port)
        writer.close()
        assert not good
        kept.pop().close()
        while not good:  # there is room again
            good, writer = await served(port)
            writer.close()
        kept.pop().close()


async def test_the_gaps_behind_the_first_hundred_are_named_as_well(inbox: Inbox) -> None:
    streams = [f"s{number:03}" for number in range(250)]
    inbox.receive([Message("orders", stream, 2, None, b"x") for stream in streams])
    named: list[list[str]] = []
    asking: dict[str, Any] = {
        "json": {"messages": []},
        "headers": {"Authorization": f"Bearer {TOKEN}"},
    }
    async with serving(inbox, Limits()) as port, aiohttp.ClientSession() as session:
        for _ in range(4):
            async with session.post(f"http://{HOST}:{port}/messages", **asking) as response:
                named.append([stream for _, stream, *_ in (await response.json())["missing"]])
    assert named == [streams[:100], streams[100:200], streams[200:], streams[:100]]


def test_void_ranges_are_counted_before_they_are_expanded() -> None:
    body = orjson.dumps({"messages": [], "void": [["t", "s", 1, 10_000]] * 60})
    assert len(body) < 2000
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="600000 messages; 10000 are the limit"):
            decode(body)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
