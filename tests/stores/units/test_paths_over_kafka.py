"""Routing by the path service over a real broker: chosen, kept, moved, deleted; what fails."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from stores.units import PathServer, PathSettings, UnitElsewhere
from stores.units.client.paths import PathAdministration
from tests.stores.units.conftest import TOKEN, Destination, received

Create = Callable[..., Destination]


@asynccontextmanager
async def paths(there: Destination, lease: float = 2.0) -> AsyncIterator[PathServer]:
    """A path service of the destination, which listens."""
    server = PathServer(PathSettings((there.name,), there.kafka, TOKEN, lease=lease))
    stopped = asyncio.Event()
    task = asyncio.create_task(server.run(stopped))
    ready = asyncio.create_task(server.ready.wait())
    await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
    try:
        yield server
    finally:
        ready.cancel()
        stopped.set()
        await task


def routed(there: Destination) -> dict[str, str]:
    return {"routing": "path", "token": TOKEN}


async def test_a_unit_moves_while_it_is_sent_to_and_worked_on(destination: Create) -> None:
    there = destination(2)
    async with (
        paths(there),
        there.server(),
        there.producer(**routed(there)) as producer,
        there.consumer() as consumer,
        PathAdministration(there.name, there.kafka, TOKEN) as admin,
    ):
        unit = producer.unit("order-7")
        await unit.send(b"0")
        home = (await admin.path("order-7"))["member"]
        seen: list[tuple[int, int]] = []

        async def work() -> None:
            while len(seen) < 60:
                delivery = await received(consumer)
                seen.append((int(delivery.value), delivery.member))
                await asyncio.sleep(0.005)
                await delivery.done()

        async def send() -> None:
            for number in range(1, 60):
                await unit.send(b"%d" % number)
                await asyncio.sleep(0.01)

        working, sending = asyncio.create_task(work()), asyncio.create_task(send())
        await asyncio.sleep(0.2)
        await admin.move("order-7", 1 - int(home), by="me")
        async with asyncio.timeout(30):
            await asyncio.gather(working, sending)
        assert [number for number, _ in seen] == list(range(60))
        assert {member for _, member in seen} == {0, 1}
        with pytest.raises(UnitElsewhere, match="leave the member out"):
            await producer.send(b"straight", unit="order-7", member=int(home))
