"""Units over a real broker while servers and consumers are killed and stopped."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stores.units.chaos import Chaos, check
from tests.stores.units.conftest import Destination

UNITS, EACH = 24, 40
SEED = int(os.environ.get("SEQUITUR_CHAOS_SEED", "14"))


@pytest.mark.timeout(300)
async def test_kills_rebalances_and_zombies_lose_overtake_and_double_nothing(
    destination: Callable[..., Destination], tmp_path: Path
) -> None:
    there = destination(3)
    chaos = Chaos(there, tmp_path, SEED)
    try:
        for kind, count in (("server", 2), ("consumer", 5)):
            for _ in range(count):
                chaos.start(kind)

        async def send(first: int) -> None:
            """One of two producers, each of half the units."""
            async with there.producer() as producer:
                for number in range(EACH):
                    await asyncio.gather(
                        *(
                            producer.unit(f"u{unit}").send(b"%d" % number)
                            for unit in range(first, UNITS, 2)
                        )
                    )
                    await asyncio.sleep(0.5)

        sending = asyncio.gather(send(0), send(1))
        while chaos.ended() < UNITS * 2:
            await asyncio.sleep(0.1)
        for what in ("kill consumer", "stop consumer", "kill server", "stop server", None):
            await asyncio.to_thread(chaos.harm, what)
            await asyncio.sleep(chaos.random.uniform(0, 2))
        await sending
        until = time.monotonic() + 120
        while chaos.ended() < UNITS * EACH and time.monotonic() < until:
            await asyncio.sleep(0.2)
    finally:
        chaos.end()
    check(chaos.log.read_text(), UNITS, EACH)


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
