"""Units over a real broker: producers, servers and consumers in one process."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable

import aiohttp
import pytest
from aiokafka.errors import KafkaError

from stores.db.steady_clock import elapsed
from stores.units import (
    DeliveryLost,
    OutgoingMessage,
    UnitConsumer,
    UnitDelivery,
    UnitElsewhere,
    UnitError,
)
from stores.units.client import link
from stores.units.kafka.topics import member_of
from stores.units.server.transactions import Batch, OwnerTransactions
from stores.units.wire import PATH
from tests.stores.units.conftest import LEASE, Destination, received
from tests.stores.units.test_transactions import everything_in

Create = Callable[..., Destination]


async def test_each_unit_is_worked_on_in_order_and_by_one_at_a_time(destination: Create) -> None:
    there = destination(2)
    units, each, consumers = 10, 20, 6
    seen: dict[str, list[int]] = defaultdict(list)
    busy: set[str] = set()
    finished = asyncio.Event()

    async def work(delivery: UnitDelivery) -> None:
        assert delivery.unit is not None
        assert delivery.unit not in busy
        busy.add(delivery.unit)
        await asyncio.sleep(0.002)
        seen[delivery.unit].append(int(delivery.value))
        busy.discard(delivery.unit)
        if sum(map(len, seen.values())) == units * each:
            finished.set()

    async with there.server(), there.producer() as producer:
        for number in range(each):
            await asyncio.gather(
                *(producer.unit(f"u{u}").send(b"%d" % number) for u in range(units))
            )
        async with asyncio.TaskGroup() as group:
            tasks = []
            for _ in range(consumers):
                consumer = there.consumer()
                await consumer.start()
                tasks.append((consumer, group.create_task(consumer.run(work))))
            async with asyncio.timeout(60):
                await finished.wait()
            for consumer, task in tasks:
                await consumer.close()
                task.cancel()
    assert seen == {f"u{u}": list(range(each)) for u in range(units)}


async def test_a_message_that_failed_comes_again_before_its_followers(destination: Create) -> None:
    there, seen = destination(), list[tuple[bytes, int]]()
    async with there.server(), there.producer() as producer, there.consumer() as consumer:
        await producer.unit("u").send_all([b"1", b"2", b"3"])
        async for delivery in consumer:
            seen.append((delivery.value, delivery.redeliveries))
            if seen == [(b"1", 0)]:
                await delivery.roll_back(delay=0.1)
            else:
                await delivery.done()
            if delivery.value == b"3":
                break
    assert seen == [(b"1", 0), (b"1", 1), (b"2", 0), (b"3", 0)]


async def test_send_all_is_sorted_and_sent_whole_or_not_at_all(destination: Create) -> None:
    there = destination()
    async with there.server(), there.producer() as producer, there.consumer() as consumer:
        unit = producer.unit("u")
        with pytest.raises(ValueError, match="header of units"):
            await unit.send_all([b"lost", OutgoingMessage(b"bad", attributes={"unit": "x"})])
        messages = [OutgoingMessage(b"late", sort=9), OutgoingMessage(b"early", sort=1)]
        await unit.send_all(messages, sort="priority")
        found = [await consumer.receive(60)]
        assert found[0] is not None
        await found[0].done()
        found.append(await consumer.receive(60))
        assert [each and each.value for each in found] == [b"early", b"late"]


async def test_what_is_not_committed_yet_blocks_what_follows(destination: Create) -> None:
    there = destination()
    async with there.server(), there.producer() as producer, there.consumer() as consumer:
        async with producer.transaction() as transaction:
            await transaction.send(b"first", "u")
            await producer.unit("u").send(b"second")
            assert await consumer.receive(1) is None
        first = await consumer.receive(60)
        assert first is not None
        assert first.value == b"first"


async def test_each_subscriber_has_its_own_order(destination: Create) -> None:
    there = destination()
    async with (
        there.server(group="slow"),
        there.server(group="fast"),
        there.producer() as producer,
        there.consumer(group="slow") as slow,
        there.consumer(group="fast", mode="auto") as fast,
    ):
        await producer.unit("u").send_all([b"1", b"2"])
        held = await received(slow)
        found = [await fast.receive(60), await fast.receive(60)]
        assert [each and each.value for each in found] == [b"1", b"2"]
        assert held.value == b"1"
        assert await slow.receive(0.3) is None


async def test_a_consumer_that_took_several_completes_all_before_anybody_gets_more(
    destination: Create,
) -> None:
    there = destination()
    async with (
        there.server(),
        there.producer() as producer,
        there.consumer(prefetch=2) as first,
        there.consumer() as second,
    ):
        await producer.unit("u").send_all([b"1", b"2", b"3"])
        one, two = await first.receive(60), await first.receive(60)
        assert one is not None
        assert two is not None
        await two.done()
        assert await second.receive(0.5) is None
        await one.roll_back()
        again = await received(second)
        assert again.value == b"1"


async def test_closing_a_consumer_returns_what_it_held_at_once(destination: Create) -> None:
    there = destination()
    async with there.server(), there.producer() as producer:
        await producer.unit("u").send(b"1")
        async with there.consumer() as first:
            await received(first)
        async with there.consumer() as second:
            found = await received(second)
            assert found.redeliveries == 0


async def test_a_new_owner_learns_from_the_sessions_what_was_not_durable(
    destination: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is delivered twice, although the former owner ended without a last commit."""
    there, seen = destination(), list[bytes]()
    commit, durable = OwnerTransactions.commit, True

    async def fails(self: OwnerTransactions, batch: Batch) -> float:
        if not durable:
            raise KafkaError("the broker is gone")
        return await commit(self, batch)

    monkeypatch.setattr(OwnerTransactions, "commit", fails)
    async with (
        there.server(),
        there.producer() as producer,
        there.consumer() as first,
        there.consumer() as second,
    ):
        await producer.unit("u").send_all([b"%d" % number for number in range(30)])
        waiting = {asyncio.create_task(each.receive(60)) for each in (first, second)}
        while len(seen) < 30:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                delivery = task.result()
                assert delivery is not None
                seen.append(delivery.value)
                durable = len(seen) % 10 != 0
                await delivery.done()
                consumer = first if delivery.session == first.session else second
                waiting.add(asyncio.create_task(consumer.receive(60)))
                if not durable:
                    await asyncio.sleep(0.3)
                    durable = True
        for task in waiting:
            task.cancel()
    assert seen == [b"%d" % number for number in range(30)]


async def test_a_message_to_a_member_that_is_not_its_unit_s_is_refused(
    destination: Create,
) -> None:
    there = destination(2)
    async with there.producer() as producer:
        home = member_of("u", 2)
        await producer.send(b"1", unit="u", member=home)
        with pytest.raises(UnitElsewhere, match=f"lives on member {home}"):
            await producer.send(b"2", unit="u", member=1 - home)


async def test_a_wrong_token_gets_nothing(destination: Create) -> None:
    there = destination()
    async with there.server() as server, aiohttp.ClientSession() as http:
        for path in (PATH, "/status", "/records"):
            async with http.get(server.url + path, headers={"Authorization": "Bearer x"}) as answer:
                assert answer.status == 401
        async with http.post(server.url + "/administration", json={}) as answer:
            assert answer.status == 401


async def test_a_consumer_without_its_owner_stops_before_its_lease_is_over(
    destination: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, begun, stopped = destination(), asyncio.Event(), asyncio.Event()

    async def work(delivery: UnitDelivery) -> None:
        async with delivery:
            begun.set()
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                stopped.set()
                raise

    async with there.producer() as producer, there.consumer() as consumer:
        async with there.server():
            await producer.unit("u").send(b"1")
            delivery = await received(consumer)
            working = asyncio.create_task(work(delivery))
            await begun.wait()
        assert delivery.held, "while it lasts"
        monkeypatch.setattr(link, "elapsed", lambda: elapsed() + LEASE)
        with pytest.raises(DeliveryLost):
            await working
        assert stopped.is_set()
        assert not delivery.held
        with pytest.raises(DeliveryLost):
            await delivery.done()


async def test_a_consumer_whose_token_is_wrong_is_told_so(destination: Create) -> None:
    there = destination()
    async with (
        there.server(),
        UnitConsumer(there.name, there.group, there.kafka, "another-token-altogether") as consumer,
    ):
        with pytest.raises(UnitError, match="does not know this token"):
            await consumer.receive(60)


async def test_what_no_filter_admits_is_counted_and_told(destination: Create) -> None:
    there = destination()
    async with (
        there.server() as server,
        there.producer() as producer,
        there.consumer(filter={"kind": "order"}) as consumer,
    ):
        for kind in ("order", "cancel"):
            await producer.unit("u").send(OutgoingMessage(b"1", attributes={"kind": kind}))
        delivery = await received(consumer)
        assert delivery.attributes == {"kind": "order"}
        await delivery.done()
        async with asyncio.timeout(60):
            while not server.owners[0].queue.unadmitted:
                await asyncio.sleep(0.02)
        assert await consumer.receive(0.2) is None
        assert server.owners[0].queue.unadmitted == 1
        assert server.owners[0].queue.status("u").state == "unadmitted"


async def test_priority_decides_between_units_and_never_inside_one(destination: Create) -> None:
    there = destination()
    async with there.producer() as producer:
        for unit, sort in (("slow", 5), ("slow", 0), ("urgent", 1)):
            await producer.unit(unit).send(OutgoingMessage(b"%d" % sort, sort=sort))
        async with there.server() as server:
            while 0 not in server.owners or server.owners[0].queue.messages < 3:
                await asyncio.sleep(0.05)
            async with there.consumer(mode="auto") as consumer:
                found = [(await received(consumer)).value for _ in range(3)]
    assert found == [b"1", b"5", b"0"]


async def test_what_expired_is_complete_and_kept_with_the_dead(destination: Create) -> None:
    there = destination()
    async with there.producer() as producer:
        await producer.unit("u").send(OutgoingMessage(b"old", expires=0.01))
        await producer.unit("u").send(b"new")
        async with there.server(), there.consumer() as consumer:
            delivery = await received(consumer)
            assert delivery.value == b"new"
            await delivery.done(durable=True)
            assert await everything_in(there, f"{there.name}.dead", 1) == [b"old"]


async def test_not_before_blocks_what_follows_in_the_unit(destination: Create) -> None:
    there = destination()
    async with there.server(), there.producer() as producer, there.consumer() as consumer:
        await producer.unit("warm").send(b"up")
        await (await received(consumer)).done()
        due = time.time() + 3
        await producer.unit("v").send(b"other")
        await producer.unit("u").send(OutgoingMessage(b"later", not_before=due))
        await producer.unit("u").send(b"follower")
        found = [await received(consumer)]
        await found[0].done()
        found.append(await received(consumer))
        assert [each.value for each in found] == [b"other", b"later"]
        assert time.time() >= due
