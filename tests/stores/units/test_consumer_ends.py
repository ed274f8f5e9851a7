"""A consumer that is closed, or finds no owner, while somebody waits; a cancelled commit."""

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from stores.db.steady_clock import elapsed
from stores.units import DeliveryLost, SendRefused, UnitConsumer, UnitDelivery
from stores.units.client import consumer as consumer_module
from stores.units.client import owners
from stores.units.client.link import MemberLink
from stores.units.client.owners import OwnerFollower
from stores.units.wire import decode
from tests.stores.units.one_process import TOKEN


def transacted(link: Any) -> UnitConsumer:
    consumer = UnitConsumer("d", "g", {}, TOKEN, mode="transacted")
    link.member, link.valid = 0, True
    consumer._links[0] = link
    consumer._open = [UnitDelivery(link, 1, 0, "u", 0, {}, b"1")]
    return consumer


async def test_who_waits_for_a_message_goes_on_when_the_consumer_is_closed() -> None:
    consumer = UnitConsumer("d", "g", {}, TOKEN)
    waiting = asyncio.create_task(consumer.receive(60))
    await asyncio.sleep(0)
    await consumer.close()
    async with asyncio.timeout(60):
        assert await waiting is None
        assert [each async for each in consumer] == []


async def test_a_commit_goes_on_when_who_waits_for_it_is_cancelled() -> None:
    """And how it ended is told to whatever is called next."""
    link, over = AsyncMock(), asyncio.Event()

    async def commit(*_: object) -> None:
        await over.wait()
        raise SendRefused("no")

    link.commit = commit
    consumer = transacted(link)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await consumer.commit()
    assert await consumer.receive(0.01) is None
    over.set()
    with pytest.raises(SendRefused):
        await consumer.receive(60)
    await consumer.roll_back()
    link.roll_back.assert_awaited_once()


async def test_what_a_transaction_of_another_member_passes_by_keeps_its_order() -> None:
    here, there = (SimpleNamespace(member=member, valid=True) for member in (0, 1))
    consumer = transacted(here)
    x1, y1, lost, x2 = (
        UnitDelivery(cast(Any, link), number, number, "u", 0, {}, b"")
        for number, link in enumerate((there, here, there, there))
    )
    lost.state = "lost"
    for each in (x1, y1, lost, x2):
        consumer._take(each)
    assert consumer._next() is y1
    consumer._open = []
    assert [consumer._next() for _ in range(3)] == [x1, x2, None]


async def test_of_a_transaction_that_lost_a_message_the_others_return_too() -> None:
    link = AsyncMock()
    link.commit.side_effect = DeliveryLost("lost")
    consumer = transacted(link)
    kept = consumer._open[0]
    with pytest.raises(DeliveryLost):
        await consumer.commit()
    assert link.roll_back.await_args.args[0] == [kept]


async def test_a_consumer_that_finds_no_owner_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(consumer_module, "LONELY", -1.0)
    consumer = UnitConsumer("orders", "billing", {}, TOKEN)
    consumer._follower.members = 2
    task = asyncio.create_task(consumer._link())
    await asyncio.sleep(0)
    task.cancel()
    assert "members [0, 1] of orders have no owner that answers" in caplog.text


async def test_what_is_rolled_back_while_the_owner_decides_returns_once_it_has() -> None:
    """It was told as held, so that it is given back without its content."""
    arrived, socket = list[UnitDelivery | None](), AsyncMock()
    nobody: Any = None
    link = MemberLink("d", "g", 0, "s", {}, TOKEN, nobody, nobody, arrived.append)
    link._socket, link._pending, link._until = socket, True, elapsed() + 60
    link.held = {each: UnitDelivery(link, each, each, "u", 0, {}, b"1") for each in (3, 4)}
    await link.roll_back([link.held[3]], 7.0, "why")
    told = {"u": "u", "r": 0, "a": {}}
    await link._reconcile(socket, {"d": [{"n": 8, "o": 3, **told}, {"n": 9, "o": 4, **told}],
                                   "gone": []})  # fmt: skip
    assert not arrived
    assert [decode(call.args[0]) for call in socket.send_bytes.await_args_list] == [
        {"t": "back", "n": [8], "delay": 7.0, "reason": "why", "failed": True}
    ]


async def test_a_consumer_closes_while_it_stops_to_look_for_owners(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its Kafka client swallowed the cancellation, and it looked for owners for ever."""
    stopping = asyncio.Event()

    class Client:
        async def start(self) -> None: ...

        async def getmany(self, **_: Any) -> dict[str, Any]:
            await asyncio.sleep(0)
            return {}

        async def stop(self) -> None:
            stopping.set()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)

    monkeypatch.setattr(owners, "reader", lambda _: Client())
    monkeypatch.setattr(OwnerFollower, "_begin", AsyncMock())
    looks = iter([True, True])
    follower = OwnerFollower({}, "d", "g", needed=lambda: next(looks, False))
    following = asyncio.create_task(follower.follow())
    await stopping.wait()
    following.cancel()
    await asyncio.wait([following], timeout=60)
    assert following.cancelled()
