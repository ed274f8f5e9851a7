"""Units over a real broker while servers and consumers are killed and stopped."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stores.units import PathAdministration, UnitError
from stores.units.kafka.topics import routing_of
from tests.stores.units.chaos import Chaos, check
from tests.stores.units.conftest import TOKEN, Destination
from topology.model.ending import end_tasks

UNITS, EACH = 24, 40
HARMS = (
    "kill consumer",
    "kill paths",
    "stop producer",
    "stop consumer",
    "kill server",
    "stop server",
)
SEED = int(os.environ.get("SEQUITUR_CHAOS_SEED", "14"))


async def test_kills_rebalances_moves_and_zombies_lose_overtake_and_double_nothing(
    destination: Callable[..., Destination], tmp_path: Path
) -> None:
    there = destination(3)
    chaos = Chaos(there, tmp_path, SEED)
    moved = 0

    async def move() -> None:
        """Units move to and fro all the time."""
        nonlocal moved
        async with PathAdministration(there.name, there.kafka, TOKEN) as admin:
            while True:
                unit, to = chaos.random.randrange(UNITS), chaos.random.randrange(3)
                try:
                    await admin.move(f"u{unit}", to, by="chaos")
                    moved += 1
                except UnitError as error:  # it is there, or the service was killed
                    chaos.told.append(str(error))
                await asyncio.sleep(0.1)

    try:
        for kind, count in (("paths", 1), ("server", 2), ("consumer", 5)):
            for _ in range(count):
                chaos.start(kind)
        while not await paths_lead(there):
            await asyncio.sleep(0.2)
        for first in range(2):
            units = ",".join(f"u{unit}" for unit in range(first, UNITS, 2))
            chaos.start("producer", units, str(EACH))
        moving = asyncio.create_task(move())
        until = time.monotonic() + 60
        while chaos.ended() < UNITS * 2 and time.monotonic() < until:
            await asyncio.sleep(0.1)
        for what in HARMS:
            await asyncio.to_thread(chaos.harm, what)
            await asyncio.sleep(chaos.random.uniform(0, 2))
        until = time.monotonic() + 300
        while chaos.ended() < UNITS * EACH and time.monotonic() < until:
            await asyncio.sleep(0.2)
        await end_tasks(moving)
    finally:
        chaos.end()
    check(chaos.log.read_text(), UNITS, EACH)
    assert moved > 10, chaos.told


async def paths_lead(there: Destination) -> bool:
    """Whether the destination is routed by path by now."""
    return (await routing_of(there.kafka, there.name))[1]


@pytest.mark.parametrize(
    "log",
    [
        "start 1 u0 0\nend 1 u0 0\n",
        "start 1 u0 1\nend 1 u0 1\nstart 1 u0 0\nend 1 u0 0\n",
        "start 1 u0 0\nstart 2 u0 0\nend 1 u0 0\nend 2 u0 0\nstart 1 u0 1\nend 1 u0 1\n",
    ],
    ids=["lost", "overtaken", "with two at once"],
)
def test_the_check_sees_what_must_not_happen(log: str) -> None:
    with pytest.raises(AssertionError):
        check(log, 1, 2)
