"""What adaptive views learned of how late events come."""

from dataclasses import dataclass
from typing import Any

from topology.diagnostics.explain import of_counts
from topology.diagnostics.lateness_bars import lateness_bars
from topology.engine.state.lateness import GROWTH, merged
from topology.faust.inspection.durable import DurableState


@dataclass(frozen=True, slots=True)
class LearnedLateness:
    """What an adaptive view learned.

    Attributes:
        view: its name.
        held: for how many seconds gaps are held now, in each partition.
        events: late events that it goes by; what is old counts less.
        bars: (lateness, how many of the events).
        now: when it was looked at (ms since 1970).
    """

    view: str
    held: tuple[float, ...]
    events: float
    bars: list[tuple[str, float]]
    now: int


async def learned_lateness(app: Any) -> list[LearnedLateness]:
    """What the views with `skip(after=adaptive())` learned.

    Args:
        app: what `compile` made; no worker is needed, and none is disturbed.

    Raises:
        TopicMissing: no worker of the topology has run yet.
    """
    found = list[LearnedLateness]()
    async with DurableState(app) as durable:
        for view in durable.topology.views.values():
            if view.gap.adaptive is None:
                continue
            tasks = [
                await durable.task(view, number, of_counts) for number in range(view.of.partitions)
            ]
            sketches = [task.state.lateness for task in tasks if task.state.lateness is not None]
            held = tuple(sketch.after(view.gap.adaptive) / 1000 for sketch in sketches)
            total = merged(sketches)
            weights = ((GROWTH**number, weight) for number, weight in total.bins.items())
            bars = lateness_bars(weights)
            found.append(LearnedLateness(view.name, held, total.weight, bars, durable.now))
    return found
