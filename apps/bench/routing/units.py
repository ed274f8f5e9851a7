"""Units of work through segments: consumed, routed, saved and published, every step synced."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

from bench.routing.work import cascade
from sequitur.route.units import RouterUnits
from topology.model.ending import end_tasks


async def units_per_second(
    tables: Mapping[str, Mapping[str, str]],
    into: str,
    prefix: str,
    size: int,
    count: int,
    folder: Path,
) -> float:
    """From the first of `count` units of `size` messages to the last one, in files and SQLite.

    tables: of the transports, as in a router's file; from `kafka` and `into` one of them.
    """
    source, destination = f"{prefix}.in", f"{prefix}.out"
    units = {
        "ledger": f"sqlite:///{folder}/ledger.db",
        "errors": {"transport": into},
        "batch": {"count": size, "size": 4_096 * size, "seconds": 10, "idle": 10},
    }
    data = {
        "transport": tables,
        "units": units,
        "source": {source: {"transport": "kafka"}},
        "destination": {destination: {"transport": into}},
    }
    router = RouterUnits(prefix, "bench", cascade(source, destination, 3), data, folder)
    consumer = router.consumers("kafka", "bench")[source]
    publisher = router.publishers(into, "bench")[source]
    while not await consumer.step() or not await publisher.step():
        pass  # the first unit, with what is asked once
    began, done = time.monotonic(), publisher.counts["published"]
    running = [asyncio.create_task(each.run(pause=0.001)) for each in (consumer, publisher)]
    try:
        async with asyncio.timeout(120):
            while publisher.counts["published"] < size * count:
                await asyncio.sleep(0.01)
        return (size * count - done) / size / (time.monotonic() - began)
    finally:
        await end_tasks(*running)
        router.engine.dispose()
