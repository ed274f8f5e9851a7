"""An owner without Kafka, and consumers that reach it by WebSocket: all in the test's process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stores.db.steady_clock import elapsed
from stores.units import ServerSettings, UnitDelivery
from stores.units.client.link import MemberLink
from stores.units.client.owners import MemberOwner
from stores.units.kafka.records import Headers
from stores.units.kafka.row_log import RowKey
from stores.units.server import owner as owner_module
from stores.units.server.owner import Owner
from stores.units.server.sockets import Sockets
from stores.units.server.transactions import Batch
from stores.units.wire import PATH

TOKEN = "a-token-of-the-tests"


class MemoryTransactions:
    """What would be in Kafka: batches that were committed; rows as they would be restored."""

    def __init__(self, *_: object) -> None:
        self.committed: list[Batch] = []
        self.started = asyncio.Event()

    async def start(self) -> None:
        self.started.set()

    async def stop(self) -> None:
        pass

    async def commit(self, batch: Batch) -> float:
        self.committed.append(batch)
        return elapsed()


class OneMember:
    """A member's owner, and links of consumers to it."""

    def __init__(self, owner: Owner, url: str, http: aiohttp.ClientSession) -> None:
        self.owner, self._http = owner, http
        self._follower = SimpleNamespace(
            owners={0: MemberOwner(0, url, owner.epoch)}, changed=asyncio.Event().wait
        )
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def committed(self) -> list[Batch]:
        transactions: Any = self.owner._transactions
        committed: list[Batch] = transactions.committed
        return committed

    def arrive(self, *values: bytes, headers: Headers | None = None, timestamp: int = 0) -> None:
        first = self.owner.queue.read_to
        given: dict[str, Any] = {"key": None, "headers": headers or (), "timestamp": timestamp}
        records = [
            SimpleNamespace(offset=first + n, value=value, **given)
            for n, value in enumerate(values)
        ]
        self.owner.arrive(records, first + len(values))

    def link(self, session: str = "s", prefetch: int = 1) -> "tuple[MemberLink, Arrivals]":
        arrivals = Arrivals()
        hello = {"prefetch": prefetch, "filter": None}
        follower: Any = self._follower
        link = MemberLink("d", "g", 0, session, hello, TOKEN, follower, self._http, arrivals.take)
        arrivals.link = link
        self._tasks.append(asyncio.create_task(link.run()))
        return link, arrivals

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Arrivals:
    """What a link has brought, for the test to wait for."""

    def __init__(self) -> None:
        self.link: MemberLink | None = None
        self._queue: asyncio.Queue[UnitDelivery] = asyncio.Queue()

    def take(self, delivery: UnitDelivery | None) -> None:
        if delivery is not None:
            self._queue.put_nowait(delivery)

    async def next(self) -> UnitDelivery:
        """Ask for more until there is one that is held."""
        assert self.link is not None
        async with asyncio.timeout(60):
            while True:
                if self._queue.empty():
                    await self.link.want()
                    await asyncio.sleep(0.01)
                elif (found := self._queue.get_nowait()).held:
                    return found


@asynccontextmanager
async def one_member(
    monkeypatch: pytest.MonkeyPatch, rows: dict[RowKey, Any] | None = None, **more: Any
) -> AsyncIterator[OneMember]:
    """A member whose owner has restored these rows, and serves consumers."""

    async def restored(*_: object) -> dict[RowKey, Any]:
        return dict(rows or {})

    monkeypatch.setattr(owner_module, "OwnerTransactions", MemoryTransactions)
    monkeypatch.setattr(owner_module, "restore_rows", restored)
    settings = ServerSettings("d", "g", {}, TOKEN, **{"lease": 20.0, **more})
    owner = Owner(settings, 0, 0, {}, "")
    await owner.start()
    app = web.Application()
    app.router.add_get(PATH, Sockets({0: owner}, frozenset({"out"})).handle)
    server = TestServer(app)
    await server.start_server()
    running = asyncio.create_task(owner.run())
    async with aiohttp.ClientSession() as http:
        member = OneMember(owner, str(server.make_url("/")), http)
        try:
            yield member
        finally:
            await member.end()
            await owner.stop(orderly=True)
            await running
            await server.close()
