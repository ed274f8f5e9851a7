"""Handlers in threads work side by side, as many as the stage has workers."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from sequitur.units.worker import SESSIONS, UnitWorkers, stage_for_units
from stores.units import UnitError
from topology import Topology


async def test_as_many_handlers_in_threads_work_side_by_side_as_there_are_workers() -> None:
    shop, together = Topology("shop"), threading.Barrier(SESSIONS)

    @shop.parallel("billing", topic="orders", workers=SESSIONS, run_in="threads")
    def bill(event: Any) -> None:
        together.wait(60)

    found = await asyncio.gather(*map(workers_of(shop)._handled, deliveries(SESSIONS)))
    assert found == [[]] * SESSIONS


@pytest.mark.parametrize("run_in", ["tasks", "threads"])
async def test_a_handler_over_its_time_limit_is_rolled_back_with_that_as_the_reason(
    run_in: Any,
) -> None:
    shop, free = Topology("shop"), threading.Event()

    if run_in == "threads":

        @shop.parallel("billing", topic="orders", workers=2, run_in=run_in, time_limit=0.05)
        def bill(event: Any) -> None:
            free.wait(120)

    else:

        @shop.parallel("billing", topic="orders", workers=2, run_in=run_in, time_limit=0.05)
        async def bill_in_task(event: Any) -> None:
            await asyncio.sleep(120)

    workers, ended = workers_of(shop), Ended()
    first, second = deliveries(2)
    await workers._work(ended.consumer, first)
    assert ended.reasons == ["HandlerError: the handler took longer than time_limit=0.05 s"]
    if run_in == "threads":
        with pytest.raises(UnitError, match="2 handlers in threads run on"):
            await workers._work(ended.consumer, second)
        assert len(ended.reasons) == 2, "it was returned before the process ends"
    free.set()


class Ended:
    """A consumer that is told how its deliveries ended."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.consumer: Any = SimpleNamespace(roll_back=self.roll_back)

    async def roll_back(self, reason: str) -> None:
        self.reasons.append(reason)


def workers_of(shop: Topology) -> UnitWorkers:
    return UnitWorkers(stage_for_units(shop, "billing"), "g", {}, "a-token-of-16-characters")


def deliveries(number: int) -> list[Any]:
    return [
        SimpleNamespace(
            destination="orders", member=0, offset=n, unit=f"u{n}", value=b"", attributes={}
        )
        for n in range(number)
    ]
