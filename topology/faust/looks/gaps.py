"""The gap ledger of a topology."""

from collections import defaultdict
from typing import Any

from topology.explain import Ledger, of_waiting, open_gaps
from topology.faust.looks.durable import Durable

LIMIT = 50
"""Gaps that are listed unless told otherwise."""


async def gaps(app: Any, *, limit: int = LIMIT) -> Ledger:
    """What is missing in all views, the oldest first, up to `limit`; the rest is counted only.

    Raises NotThere where no worker has run yet.
    """
    async with Durable(app) as durable:
        ledger = Ledger(durable.now, limit)
        for view in durable.topology.views.values():
            for number in range(view.of.partitions):
                task = await durable.task(view, number, of_waiting)
                away: defaultdict[str, list[int]] = defaultdict(list)
                for event in await durable.away(task, number) if task.waiting else ():
                    if event.stream in task.waiting:
                        away[event.stream].append(event.sequence)
                for gap in open_gaps(task, number, away):
                    ledger.enter(gap)
        return ledger
