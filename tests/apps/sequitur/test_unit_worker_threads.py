"""Handlers in threads work side by side, as many as the stage has workers."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from sequitur.units.worker import SESSIONS, UnitWorkers, stage_for_units
from topology import Topology


async def test_as_many_handlers_in_threads_work_side_by_side_as_there_are_workers() -> None:
    shop, together = Topology("shop"), threading.Barrier(SESSIONS)

    @shop.parallel("billing", topic="orders", workers=SESSIONS, run_in="threads")
    def bill(event: Any) -> None:
        together.wait(5)

    workers = UnitWorkers(stage_for_units(shop, "billing"), "g", {}, "a-token-of-16-characters")
    deliveries: list[Any] = [
        SimpleNamespace(
            destination="orders", member=0, offset=n, unit=f"u{n}", value=b"", attributes={}
        )
        for n in range(SESSIONS)
    ]
    found = await asyncio.gather(*map(workers._handled, deliveries))
    assert found == [[]] * SESSIONS
