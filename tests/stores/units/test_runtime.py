"""Units over a real broker: producers, servers and consumers in one process."""

import asyncio
from collections import defaultdict
from collections.abc import Callable

from stores.units import UnitDelivery
from tests.stores.units.conftest import Destination

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
