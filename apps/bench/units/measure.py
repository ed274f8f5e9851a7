"""Each measurement of units of order, over a server in a process of its own."""

import asyncio
import gc
import os
import sys
import time
import tracemalloc
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from aiokafka import AIOKafkaConsumer

from bench.cluster import Cluster
from stores.units import UnitConsumer, UnitDelivery, UnitProducer
from stores.units.queue import UnitMessage, UnitQueue
from topology.model.ending import wait_for_stop

TOKEN = "a-token-of-the-bench"
WORK = 0.001
"""Seconds of work for each message."""
LONGEST = 120.0
"""Seconds that one measurement may take."""


@dataclass(slots=True)
class Measured:
    """What a run showed. wrong: what must not be, one line each."""

    rate: float
    hand_over: list[float] = field(default_factory=list)
    """Seconds from an acknowledgement to the next message of its unit in another session."""
    wrong: list[str] = field(default_factory=list)
    cpu: float = 0.0
    """Seconds of CPU of consumers and server, for each message."""


@asynccontextmanager
async def server(broker: str, destination: str) -> AsyncIterator[int]:
    """A unit server in a process of its own; its process's id."""
    words = ["-m", "sequitur", "units", "serve", "--destination", destination]
    words += ["--group", destination, "--broker", broker, "--port", "0"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *[*words, "--redelivery-delay", "50ms", "--redelivery-limit", "1000000"],
        env={**os.environ, "UNITS_TOKEN": TOKEN},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process.pid
    finally:
        process.terminate()
        await process.wait()


async def partition_bound(broker: str, messages: int) -> Measured:
    """One consumer of the one partition, one message after the other."""
    topic = f"units-{uuid4().hex[:8]}"
    cluster = Cluster(broker)
    cluster.create({topic: 1})
    async with UnitProducer(topic, {"bootstrap_servers": broker}) as producer:
        await asyncio.gather(*(producer.unit("u").send(b"%d" % n) for n in range(messages)))
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=broker, auto_offset_reset="earliest")
    await consumer.start()
    try:
        await consumer.getone()
        begun = time.perf_counter()
        for _ in range(messages - 1):
            await consumer.getone()
            await asyncio.sleep(WORK)
        return Measured((messages - 1) / (time.perf_counter() - begun))
    finally:
        await wait_for_stop(consumer.stop())


async def shared(
    broker: str, messages: int, units: int, consumers: int, poisoned: bool = False
) -> Measured:
    """Consumers that share units of one partition. poisoned: one further unit always fails."""
    topic = f"units-{uuid4().hex[:8]}"
    Cluster(broker).create({topic: 1})
    kafka = {"bootstrap_servers": broker}
    seen: dict[str, list[int]] = defaultdict(list)
    done: dict[str, tuple[float, str]] = {}
    found = Measured(0.0)
    count, finished, begun, used, serving = 0, asyncio.Event(), 0.0, 0.0, 0

    async def work(delivery: UnitDelivery) -> None:
        nonlocal count, begun, used
        unit = delivery.unit or ""
        now = time.perf_counter()
        if not begun:
            begun, used = now, _cpu(serving)
        if (before := done.get(unit)) is not None and before[1] != delivery.session:
            found.hand_over.append(now - before[0])
        await asyncio.sleep(WORK)
        if unit == "poisoned":
            await delivery.roll_back()
            return
        seen[unit].append(int(delivery.value))
        done[unit] = time.perf_counter(), delivery.session
        await delivery.done()
        count += 1
        if count == messages:
            found.rate = messages / (time.perf_counter() - begun)
            found.cpu = (_cpu(serving) - used) / messages
            finished.set()

    async def consume(consumer: UnitConsumer) -> None:
        async for delivery in consumer:
            await work(delivery)

    async with UnitProducer(topic, kafka) as producer:
        if poisoned:
            await producer.unit("poisoned").send(b"0")
        for first in range(0, messages, 5_000):
            some = range(first, min(first + 5_000, messages))
            await asyncio.gather(*(producer.unit(f"u{n % units}").send(b"%d" % n) for n in some))
    async with AsyncExitStack() as stack:
        sessions = [
            await stack.enter_async_context(UnitConsumer(topic, topic, kafka, TOKEN))
            for _ in range(consumers)
        ]
        tasks = [asyncio.create_task(consume(each)) for each in sessions]
        serving = await stack.enter_async_context(server(broker, topic))
        try:
            async with asyncio.timeout(LONGEST):
                await finished.wait()
        except TimeoutError:
            found.wrong.append(f"{units} units: {count} of {messages} after {LONGEST:.0f} s")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    expected = {f"u{u}": list(range(u, messages, units)) for u in range(min(units, messages))}
    if not found.wrong and seen != expected:
        found.wrong.append(f"{units} units: a unit was not handled once and in order")
    return found


def _cpu(process: int) -> float:
    """Seconds of CPU that a process and this one have used; without /proc, this one alone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.process_time()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle_units(units: int) -> float:
    """MB that a queue has grown by once so many units had a message, and have none now."""
    queue = UnitQueue()
    queue.open_session("s", prefetch=1)
    gc.collect()
    tracemalloc.start()
    for number in range(units):
        queue.arrive(UnitMessage(number, f"session-{number}", size=100, content=b"x" * 100), 0.0)
        (delivery,) = queue.next("s", 0.0)
        queue.complete("s", [delivery.number], 0.0)
        queue.settled(queue.take_changes().number, 0.0)
    gc.collect()
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return grown / 1e6


def waiting_units(units: int) -> float:
    """MB that a queue takes in which so many units have one message of 100 bytes each."""
    queue = UnitQueue()
    gc.collect()
    tracemalloc.start()
    for number in range(units):
        content = b"%100d" % number
        queue.arrive(UnitMessage(number, f"session-{number}", size=100, content=content), 0.0)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return grown / 1e6
