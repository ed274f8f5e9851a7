"""A producer's routes: held under a lease, given back when nothing is on its way by them."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from stores.db.steady_clock import elapsed
from stores.units.errors import MemberUnavailable, SendRefused
from stores.units.forward import agent as agent_module
from stores.units.forward.agent import ForwardingAgent
from stores.units.kafka.producer import UnitProducer
from stores.units.kafka.routes import Hold, Routes


class Service:
    """What the path service would answer; it keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.drop: list[str] = []
        self.lease, self.down = 0.4, False

    async def ask(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        if self.down:
            raise MemberUnavailable("it is down")
        routes = {unit: [2, 7] for unit in body["ask"]}
        return {"held": True, "lease": self.lease, "routes": routes, "refused": {},
                "drop": self.drop}  # fmt: skip

    async def close(self) -> None:
        pass

    def left(self) -> list[str]:
        return [unit for body in self.asked for unit in body["leave"]]


async def routes_of(service: Service, wait: float = 60.0) -> Routes:
    routes = Routes("d", {}, "a-token", wait, lambda _: True)
    routes._service = service  # type: ignore[assignment]
    await routes.start()
    return routes


async def test_a_route_that_is_wanted_back_is_given_back_once_nothing_is_on_its_way() -> None:
    service = Service()
    routes = await routes_of(service)
    try:
        hold = await routes.acquire("u")
        sent = asyncio.get_running_loop().create_future()
        watched = hold.watch(sent)
        service.drop = ["u"]
        async with asyncio.timeout(60):
            while not hold.dropped:
                await asyncio.sleep(0.01)
            until = hold.until = elapsed() + 60  # whatever the machine did meanwhile
            await asyncio.sleep(0.2)
            assert hold.until == until, "its lease is not renewed any more"
            assert service.left() == []
            sent.set_result("there")
            assert await watched == "there"
            while not service.left():
                await asyncio.sleep(0.01)
    finally:
        await routes.close()


async def test_an_answer_after_the_lease_does_not_count() -> None:
    loop = asyncio.get_running_loop()
    hold = Hold("u", 2, 7, until=0.0)
    hold.sending = 1
    sent = loop.create_future()
    watched = hold.watch(sent)
    sent.set_result("there")
    with pytest.raises(SendRefused, match="after this producer's lease"):
        await watched


async def test_routes_hold_for_a_lease_without_the_service_and_no_longer() -> None:
    service = Service()
    service.lease = 60.0
    routes = await routes_of(service)
    try:
        hold = await routes.acquire("u")
        hold.release()
        service.down, routes._wait = True, 0.3
        (await routes.acquire("u")).release()
        hold.until = elapsed()
        assert not hold.usable(elapsed())
        with pytest.raises(MemberUnavailable, match="it is down"):
            await routes.acquire("u")
    finally:
        service.down = False
        await routes.close()
    assert service.asked[-1]["close"]


async def test_an_answer_that_is_none_of_the_service_ends_no_producer() -> None:
    service = Service()
    ask, strange = service.ask, [{}, {"lease": "soon"}]

    async def answer(method: str, body: dict[str, Any]) -> dict[str, Any]:
        return strange.pop() if strange else await ask(method, body)

    service.ask = answer  # type: ignore[method-assign]
    routes = await routes_of(service)
    try:
        (await routes.acquire("u")).release()
        assert not strange
    finally:
        await routes.close()


async def test_units_that_a_send_gave_up_on_are_asked_for_no_longer() -> None:
    service = Service()
    service.down = True
    routes = await routes_of(service, wait=0.1)
    try:
        for unit in ("a", "b"):
            with pytest.raises(MemberUnavailable, match="gives no route"):
                await routes.acquire(unit)
        service.down, routes._wait = False, 60.0
        (await routes.acquire("c")).release()
        assert service.asked[-1]["ask"] == ["c"]
    finally:
        await routes.close()


async def test_who_began_to_wait_later_waits_on_when_another_gives_up() -> None:
    service = Service()
    service.down = True
    routes = await routes_of(service, wait=0.2)
    try:
        first = asyncio.create_task(routes.acquire("u"))
        await asyncio.sleep(0.1)
        routes._wait = 60.0
        second = asyncio.create_task(routes.acquire("u"))
        with pytest.raises(MemberUnavailable):
            await first
        assert not second.done()
        service.down = False
        (await second).release()
    finally:
        await routes.close()


async def test_the_agent_asks_for_the_routes_of_all_that_it_sends_together() -> None:
    async def nothing() -> None: ...

    async def partitions_for(_: str) -> set[int]:
        return {2}

    async def send(*_: object, **__: object) -> asyncio.Future[None]:
        sent = asyncio.get_running_loop().create_future()
        sent.set_result(None)
        return sent

    service = Service()
    service.lease = 60.0
    producer = UnitProducer("d", {}, routing="path", token="a-token")
    sender: Any = SimpleNamespace(
        begin_transaction=nothing, commit_transaction=nothing, partitions_for=partitions_for,
        send=send,
    )  # fmt: skip
    routes = producer._routes = await routes_of(service)
    routes._uses = producer._units.__contains__
    agent = ForwardingAgent("d", "store.db", {}, routing="path", token="a-token")
    messages: list[Any] = [
        SimpleNamespace(
            sequence=n, captured_at=n, headers={"unit": f"u{n}"}, content=b"", damage=None
        )
        for n in range(250)
    ]
    try:
        await agent._send(producer, sender, ("forwarded", "s"), messages)
        assert agent.counts["forwarded"] == 250
        assert sum(bool(body["ask"]) for body in service.asked) < 10
        async with asyncio.timeout(60):
            before = len(service.asked)
            while len(service.asked) < before + 3:
                routes._wake.set()  # it renews its lease
                await asyncio.sleep(0.01)
            assert service.left() == [], "what comes next may be of the same units"
            agent._entered.clear()
            while len(service.left()) < 250:
                routes._wake.set()
                await asyncio.sleep(0.01)
    finally:
        await routes.close()


async def test_an_agent_whose_sender_does_not_stop_gives_its_routes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = asyncio.Event()

    async def for_ever() -> None:
        await asyncio.Event().wait()

    async def close() -> None:
        closed.set()

    async def start() -> None: ...

    monkeypatch.setattr(
        agent_module, "UnitProducer", lambda *_, **__: SimpleNamespace(start=start, close=close)
    )
    monkeypatch.setattr(
        agent_module, "AIOKafkaProducer", lambda **_: SimpleNamespace(start=for_ever, stop=for_ever)
    )
    store: Any = SimpleNamespace(name="s")
    agent = ForwardingAgent("d", "store.db", {})
    forwarding = asyncio.create_task(agent._forward(store, asyncio.Event()))
    for _ in range(2):  # as `end_tasks` does
        await asyncio.sleep(0.05)
        forwarding.cancel()
    await asyncio.wait([forwarding], timeout=60)
    assert closed.is_set()
