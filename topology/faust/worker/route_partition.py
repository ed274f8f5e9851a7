"""A partition of a topic whose messages are routed."""

from aiokafka import TopicPartition

from stores.view_state.table import TableError, TableFenced, TableUnavailable
from topology.declaration.route import Route
from topology.engine.parked_messages import ParkedMessages
from topology.engine.partition import RouteStep
from topology.engine.route_task import RouteTask
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.context import WorkerContext
from topology.faust.worker.partition import Crash, Partition
from topology.faust.worker.routing.refusals import RouteRefusals
from topology.faust.worker.routing.rules_in_turn import RulesInTurn
from topology.faust.worker.runner import Runner
from topology.faust.worker.start_offset import committed_start
from topology.model.ending import wait_for_stop
from topology.model.errors import DeclarationError


class RoutePartition(Partition):
    """One runner; no state but the counts that go with the committed offset, and what is parked."""

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
            parked = await self._parked()
            start = await committed_start(context, self.source)
        except BaseException:
            await wait_for_stop(writer.stop())
            raise
        task = RouteTask(context.topology, self._route, start.taken, parked)
        task.refused = self._refusals.found
        step = RouteStep(self.source, task, wall)
        process = context.routers.get(self._route.name)
        reader, refusals = context.shared_reader, self._refusals
        turn = None if process is None else RulesInTurn(process, self.source, task, refusals)
        runner = Runner(
            self.source, step, writer, reader, start.offset,
            refusals=refusals, alignment=turn, committed=start.committed,
        )  # fmt: skip
        return [runner]

    async def _parked(self) -> ParkedMessages | None:
        """What is parked of the partition, read from its changelog; None if nothing ever is."""
        topic, number = self.source
        for table in self._route.tables:
            if table.topic == topic:
                if number >= (has := self._route.partitions):
                    raise DeclarationError(
                        f"topic {topic!r} has a partition {number}, and route({self._route.name!r})"
                        f" keeps what it parks of {has}: give it partitions={number + 1} or more"
                    )
                found = await self._context.tables.restore([table], number)
                return ParkedMessages(table.name, found[table.name])
        return None

    async def recover(self, error: TableError) -> None:
        # As with a view's table: what is right goes on when it is opened again.
        tables = self._context.tables
        right = isinstance(error, TableUnavailable | TableFenced)
        for table in self._route.tables:
            if table.topic == self.source.topic:
                await (tables.close if right else tables.discard)(table.name, self.source.partition)
