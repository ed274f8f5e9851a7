"""A partition of a topic whose messages are routed."""

from aiokafka import TopicPartition

from topology.declaration.route import Route
from topology.engine.partition import RouteStep
from topology.engine.route_task import RouteTask
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.context import WorkerContext
from topology.faust.worker.partition import Crash, Partition
from topology.faust.worker.route_refusals import RouteRefusals
from topology.faust.worker.router_process import RulesInTurn
from topology.faust.worker.runner import Runner
from topology.faust.worker.start_offset import committed_start
from topology.model.ending import wait_for_stop


class RoutePartition(Partition):
    """One runner, and no state but the counts that go with the committed offset."""

    def __init__(
        self, source: TopicPartition, route: Route, context: WorkerContext, crash: Crash
    ) -> None:
        super().__init__(source, context, crash)
        self._route = route
        to = tuple(route.to.values())
        self._refusals = RouteRefusals(context.app, context.group, source, context.partitions, to)

    async def open(self) -> list[Runner]:
        context = self._context
        writer = context.writer(self.source)
        try:
            await writer.start()
            _, start, taken = await committed_start(context, self.source)
        except BaseException:
            await wait_for_stop(writer.stop())
            raise
        task = RouteTask(context.topology, self._route, taken)
        task.refused = self._refusals.found
        step = RouteStep(self.source, task, wall)
        process = context.routers.get(self._route.name)
        turn = None if process is None else RulesInTurn(process, self.source.topic, task)
        reader, refusals = context.shared_reader, self._refusals
        return [Runner(self.source, step, writer, reader, start, refusals=refusals, alignment=turn)]
