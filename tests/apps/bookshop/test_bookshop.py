"""The bookshop: several consumers that fail, and no cancellation overtakes its order."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, select

from bookshop import shop
from tests.conftest import BrokerAddress
from tests.stores.units.conftest import Destination

ORDERS = 60


async def test_no_cancellation_overtakes_its_order_whatever_fails(
    broker: BrokerAddress,
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = Destination({"bootstrap_servers": broker.address}, topic("bookshop", 2))
    chance = random.Random(14)
    engine = create_engine(f"sqlite:///{tmp_path}/storehouse.db")
    shop.create_tables(engine)
    overtaken: list[str] = []
    failures = 0
    handle = shop.handle

    def fails_at_times(connection: Connection, message: bytes) -> None:
        """The storehouse's database, or its work, fails before or after what it does."""
        nonlocal failures
        before, after = (chance.random() < 0.1 for _ in range(2))
        failures += before or after
        if before:
            raise TimeoutError("the shelf is locked")
        try:
            handle(connection, message)
        except shop.UnknownOrder as error:
            overtaken.append(str(error))
            raise
        if after:
            raise TimeoutError("the label printer is out of paper")

    monkeypatch.setattr(shop, "handle", fails_at_times)
    cancelled = {f"order-{number}" for number in range(0, ORDERS, 3)}
    everything = {
        f"order-{n}": "cancelled" if f"order-{n}" in cancelled else "packed" for n in range(ORDERS)
    }
    async with there.server(), there.producer() as web, there.producer() as hotline:
        consumers = [there.consumer() for _ in range(5)]
        for consumer in consumers:
            await consumer.start()
        working = [asyncio.create_task(shop.work(each, engine)) for each in consumers]
        for n, number in enumerate(everything):
            if n == ORDERS // 2:  # one goes home early: the others have its work
                working[0].cancel()
                await consumers[0].close()
            await shop.order(web, number, "Moby-Dick", 1)
            if number in cancelled:
                await shop.cancel(hotline, number)
        async with asyncio.timeout(240):
            while True:
                with engine.begin() as connection:
                    rows = connection.execute(select(shop.ORDERS.c.number, shop.ORDERS.c.status))
                    found = {row.number: row.status for row in rows}
                if found == everything:
                    break
                await asyncio.sleep(0.1)
        for task, consumer in zip(working[1:], consumers[1:], strict=True):
            task.cancel()
            await consumer.close()
    assert working[0].cancelled()
    assert failures > 0
    assert overtaken == []
