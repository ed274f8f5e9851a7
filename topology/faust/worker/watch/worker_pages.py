"""What a worker answers over HTTP: its figures, and what keeps it from its work."""

import time
from collections.abc import Iterator, Mapping

from aiokafka import TopicPartition
from prometheus_client.core import Metric

from topology.faust.worker.engine import Engine
from topology.faust.worker.watch.worker_metrics import (
    WorkerMetrics,
    databases,
    stage_runners,
    view_states,
    worker_figures,
)
from topology.model.printable import printable
from topology.monitoring import Growth, Lags, Pages, Question, up


class WorkerPages(Pages):
    """A worker's HTTP server.

    Args:
        engine: the worker's.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        engine.context.timings = WorkerMetrics(self)
        self._lags, self._grown = Lags(), Growth()
        self._broker = Question(self._ends)

    async def _ends(self) -> None:
        engine = self._engine
        ends: Mapping[TopicPartition, int] = await engine.context.barriers.ends(
            [each.source for each in engine.running]
        )
        self._lags.note(ends, time.monotonic())

    def collect(self) -> Iterator[Metric]:
        """The figures of now."""
        restoring = self._engine.tables.restoring
        left = {at: end - (table.offset or 0) for at, (table, end) in list(restoring.items())}
        yield from worker_figures(list(self._engine.running), self._lags, self._grown, left)
        yield up("broker", self._broker.answered)
        if lent := databases(list(self._engine.running)):
            yield up("database", not any(lent.values()))

    async def troubles(self) -> list[str]:
        """What keeps the worker from doing all of its work, as far as it knows."""
        found = [] if await self._broker() else ["the broker does not answer"]
        partitions = self._engine.running
        if not self._engine.is_assigned:
            found.append("no partitions are assigned yet")
        found += [
            f"{each.source.topic}/{each.source.partition} starts, or starts again"
            for each in partitions
            if not each.is_running
        ]
        halted = {
            view.name: printable(view.task.halted, 200)
            for view in view_states(partitions)
            if view.task.halted is not None
        }
        halted |= {
            runner.stage.view.name: printable(why, 200)
            for runner in stage_runners(partitions)
            if (why := runner.status.status.halted) is not None
        }
        found += [f"view {name} is halted: {why}" for name, why in sorted(halted.items())]
        found += [
            f"the database of view {name} is away: {printable(why, 200)}"
            for name, why in databases(partitions).items()
            if why
        ]
        return found

    async def stop(self) -> None:
        """Listen no longer."""
        await super().stop()
        await self._broker.stop()
