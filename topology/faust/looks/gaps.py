"""The gap ledger of a topology."""

from collections import defaultdict
from typing import Any

from topology.explain import Ledger, of_waiting, open_gaps
from topology.faust.looks.durable import Durable
from topology.faust.operate import view_of

LIMIT = 50
"""Gaps that are listed unless told otherwise."""


async def gaps(
    app: Any, *, view: str = "", limit: int = LIMIT, look: int | None = None, tell: Any = None
) -> Ledger:
    """What is missing in all views, or in one, the oldest first; beyond `limit` it is counted only.

    look, tell: as of Durable. Raises KeyError for a view that is not there, NotThere where no
    worker has run yet.
    """
    views = [view_of(app, view)] if view else list(app.engine.topology.views.values())
    async with Durable(app, look=look, tell=tell) as durable:
        ledger = Ledger(durable.now, limit)
        for each in views:
            for number in range(each.of.partitions):
                task = await durable.task(each, number, of_waiting)
                away: defaultdict[str, list[int]] = defaultdict(list)
                for event in await durable.away(task, number) if task.waiting else ():
                    if event.stream in task.waiting:
                        away[event.stream].append(event.sequence)
                for gap in open_gaps(task, number, away):
                    ledger.enter(gap)
        return ledger
